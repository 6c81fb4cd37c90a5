// Events of a study's log: the kind, a line end, the payload. Any bytes are an event or a usage
// error that names it; an event is written back as the same bytes.
#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/tune/core/event.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  const std::string_view text = fuzz::text_of(data, size);
  const size_t line_end = text.find('\n');
  if (line_end == std::string_view::npos) return 0;
  const std::string_view kind = text.substr(0, line_end), payload = text.substr(line_end + 1);
  try {
    const tune::Event event = tune::event_from(7, 1.5, 3, kind, payload);
    fuzz::require(tune::kind_of(event) == kind, "the kind is kept");
    fuzz::require(tune::payload_text(event) == payload, "what was read is written the same");
    fuzz::require(is_safe_json(payload), "a payload is JSON");
    fuzz::require(Json::accept(payload), "a payload is JSON");
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kUsage, "the file is at fault");
    fuzz::require(std::string_view(error.what()).starts_with("event 7 "), "the event is named");
  }
  return 0;
}
