// A status file is refused by one usage error, or written again it reads back as the same.
#include <string>

#include "muster/base/error.h"
#include "muster/diagnose/devices/published_state.h"

#include "tests/fuzz/fuzz.h"

namespace {

using namespace muster;

/// False: it was refused.
bool reads(std::string_view bytes, diagnose::PublishedState& state) {
  try {
    state = diagnose::parse_published(bytes, "fuzz");
    return true;
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kUsage, "a bad status file is a usage error");
    return false;
  }
}

void check(std::string_view bytes) {
  diagnose::PublishedState state, again;
  if (!reads(bytes, state)) return;
  fuzz::require(reads(diagnose::published_text(state), again), "what is written is read");
  fuzz::require(state == again, "what was written reads back");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  check(text);
  // Behind the right sum as well, which no alteration would find: the body of a written file is
  // replaced, and its head made to fit.
  const size_t end = text.find('\n');
  const std::string_view body = end == std::string_view::npos ? text : text.substr(end + 1);
  check(diagnose::status_file_of(body));
  return 0;
}
