// What trials write: lines on the socket, lines of the report file, tagged lines of their output.
// Any bytes are a message or a refusal of ours; what is a message is written and read as the same.
#include <string>
#include <variant>

#include "muster/base/error.h"
#include "muster/tune/trial/protocol.h"
#include "muster/tune/trial/wire.h"

#include "tests/fuzz/fuzz.h"

namespace {

using namespace muster;
using namespace muster::tune;

/// The result of `parse`, or nothing for a refusal; any other exception ends the program.
template <class Parse>
auto taken(Parse parse) -> std::optional<decltype(parse())> {
  try {
    return parse();
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kUsage, "a refusal is a usage error");
    return std::nullopt;
  }
}

void check_lines(std::string_view text) {
  if (const auto message = taken([&] { return parse_trial_message(text); })) {
    // What is written may be longer than what was read (escapes), and is refused then.
    const auto line =
        taken([&] { return std::visit([](const auto& one) { return to_line(one); }, *message); });
    if (line) {
      fuzz::require(line->find('\n') == line->size() - 1, "a message is one line");
      const TrialMessage again = parse_trial_message(*line);
      fuzz::require(std::visit([](const auto& one) { return to_line(one); }, again) == *line,
                    "a message reads back");
    }
  }
  if (const auto answer = taken([&] { return parse_answer(text); })) {
    const std::string line = to_line(*answer);
    fuzz::require(to_line(parse_answer(line)) == line, "an answer reads back");
  }
  if (const auto report = taken([&] { return parse_report_line(text); })) {
    fuzz::require(report->metrics.size() <= kMaxMetrics && !report->metrics.empty(),
                  "metrics are bounded");
    if (const auto line = taken([&] { return to_report_line(*report); })) {
      const auto again = taken([&] { return parse_report_line(*line); });
      fuzz::require(again && to_report_line(*again) == *line, "a report reads back");
    }
  }
  taken([&] { return parse_failure_line(text); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  check_lines(text);
  for (const std::string_view tag : {kMetricTag, kFailureTag}) {
    if (const auto rest = behind_tag(text, tag)) check_lines(*rest);
  }
  if (const auto address = taken([&] { return parse_address(text, "address"); }))
    fuzz::require(parse_address(address_text(*address), "address") == *address,
                  "an address reads back");
  LineBuffer buffer;
  size_t bytes = 0;
  const auto count = [&](std::string_view line) {
    fuzz::require(line.size() <= kMaxLineBytes + 1, "lines are bounded");
    bytes += line.size();
  };
  buffer.feed(text.substr(0, size / 2), count);
  buffer.feed(text.substr(size / 2), count);
  buffer.flush(count);
  fuzz::require(bytes <= size, "lines are parts of what came");
  return 0;
}
