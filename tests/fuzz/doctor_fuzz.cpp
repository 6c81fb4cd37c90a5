// Any bytes are a log: what is found does not depend on how they are cut, places are within the log,
// and what is shown can be printed.
#include <algorithm>
#include <string>

#include "muster/base/text_table.h"
#include "muster/diagnose/log/log_reader.h"

#include "tests/fuzz/fuzz.h"

namespace {

using namespace muster;

diagnose::LogDiagnosis read_in_two(std::string_view text, size_t cut) {
  diagnose::LogReader reader;
  reader.begin("log");
  reader.read(text.substr(0, cut));
  reader.read(text.substr(cut));
  reader.end();
  return reader.diagnosis();
}

void check_finding(const diagnose::Finding& finding, int64_t lines) {
  fuzz::require(finding.row != nullptr && finding.cause != nullptr, "a finding has row and cause");
  fuzz::require(!finding.evidence.empty() && finding.count > 0, "a finding has evidence");
  for (const diagnose::Sighting& sighting : finding.evidence) {
    fuzz::require(sighting.line >= 1 && sighting.line <= lines, "a line of the log");
    fuzz::require(printable(sighting.text) == sighting.text, "evidence can be printed");
    fuzz::require(sighting.text.size() <= diagnose::kMostTextBytes + 3, "evidence is short");
    fuzz::require(!sighting.rank || *sighting.rank >= 0, "ranks are not negative");
  }
  const auto& causes = finding.row->causes;
  fuzz::require(
      std::ranges::any_of(causes, [&](const auto& cause) { return &cause == finding.cause; }),
      "the cause is one of the row's");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const diagnose::LogDiagnosis whole = diagnose::classify(text);
  fuzz::require(whole.bytes == static_cast<int64_t>(size), "all bytes are read");
  for (const diagnose::Finding& finding : whole.findings) check_finding(finding, whole.lines);
  const auto first =
      std::ranges::count(whole.findings, diagnose::Part::kFirstCause, &diagnose::Finding::part);
  fuzz::require(first <= 1, "at most one first cause");
  fuzz::require((first == 1) == (whole.first_cause() != nullptr), "which comes first");
  const diagnose::LogDiagnosis parts = read_in_two(text, size == 0 ? 0 : data[0] % size);
  fuzz::require(parts.lines == whole.lines && parts.findings.size() == whole.findings.size(),
                "a cut changes nothing");
  for (size_t i = 0; i < whole.findings.size(); ++i) {
    fuzz::require(parts.findings[i].row == whole.findings[i].row, "nor which errors are found");
    fuzz::require(parts.findings[i].count == whole.findings[i].count, "nor how often");
  }
  return 0;
}
