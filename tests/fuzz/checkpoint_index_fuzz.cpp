// A state.json is refused by one usage error, or what it says is in range and is written and read
// back as the same.
#include <string>

#include "muster/base/error.h"
#include "muster/formats/checkpoint_index.h"

#include "tests/fuzz/fuzz.h"

namespace {

void read_index(const std::string& text) {
  using namespace muster;
  formats::CheckpointIndex index;
  try {
    index = formats::parse_checkpoint_index(text, "fuzz");
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kUsage, "a bad file is a usage error");
    return;
  }
  fuzz::require(index.position.step >= 0 && index.position.epoch >= 0 &&
                    index.position.samples >= 0 && index.world_size >= 1 &&
                    index.global_batch >= 1 && index.best_step >= -1,
                "numbers are in range");
  index.format = formats::kCheckpointFormat;  // what is written
  std::string written = formats::to_state_json(index);
  fuzz::require(formats::parse_checkpoint_index(written, "again") == index,
                "what was written reads back");
  written[text.size() % written.size()] ^= static_cast<char>(1 + text.size() % 255);
  try {
    formats::parse_checkpoint_index(written, "altered");
  } catch (const Error&) {
    return;
  }
  fuzz::require(false, "an altered byte is refused");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(muster::fuzz::text_of(data, size));
  read_index(text);
  read_index(muster::formats::with_checksum(text));  // what lies behind the checksum
  return 0;
}
