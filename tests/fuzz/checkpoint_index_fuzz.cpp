// A state.json is refused by one usage error, or what it says is in range and is written and read
// back as the same.
#include <string>

#include "muster/base/error.h"
#include "muster/formats/checkpoint_index.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  formats::CheckpointIndex index;
  try {
    index = formats::parse_checkpoint_index(fuzz::text_of(data, size), "fuzz");
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kUsage, "a bad file is a usage error");
    return 0;
  }
  fuzz::require(index.position.step >= 0 && index.position.epoch >= 0 &&
                    index.position.samples >= 0 && index.world_size >= 1 && index.global_batch >= 1,
                "numbers are in range");
  fuzz::require(formats::parse_checkpoint_index(formats::to_state_json(index), "again") == index,
                "what was written reads back");
  return 0;
}
