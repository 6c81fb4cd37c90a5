#include "muster/diagnose/explain/diagnosis_text.h"

#include <algorithm>
#include <vector>

#include "muster/base/text.h"
#include "muster/base/text_table.h"

namespace muster::diagnose {
namespace {

constexpr size_t kLabelColumns = 12;
constexpr size_t kEvidenceLines = 3;  // of one quotation

/// "  why         text that is folded\n              under itself\n".
std::string labelled(const std::string& label, const std::string& text, size_t width) {
  const size_t column = 2 + kLabelColumns;
  const std::string folded = fold(text, std::max(width, column + 20) - column, 0);
  std::string out =
      "  " + label + std::string(kLabelColumns - std::min(kLabelColumns, label.size()), ' ');
  bool is_first = true;
  for (const std::string& line : split(trim(folded), '\n')) {
    out += (is_first ? "" : std::string(column, ' ')) + line + '\n';
    is_first = false;
  }
  return out;
}

/// What a log says, behind bars, at most kEvidenceLines lines of it.
std::string quoted(const std::string& text, size_t indent, size_t width) {
  const size_t room = std::max<size_t>(width, indent + 22) - indent - 2;
  std::string out;
  size_t lines = 0;
  for (const std::string& line : split(trim(fold(text, room, 0)), '\n')) {
    const bool cut = ++lines > kEvidenceLines;
    out += std::string(indent, ' ') + "| " + (cut ? "…" : line) + '\n';
    if (cut) break;
  }
  return out;
}

std::string ranks_text(const std::vector<int64_t>& ranks) {
  constexpr size_t kMostShown = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < std::min(ranks.size(), kMostShown); ++i)
    text += concat(i == 0 ? "" : ", ", ranks[i]);
  return text +
         (ranks.size() > kMostShown ? concat(" and ", ranks.size() - kMostShown, " more") : "");
}

std::string place_text(const Sighting& at) {
  return at.line > 0 ? concat(at.source, ":", at.line) : at.source;
}

std::string seen_text(const Finding& finding) {
  std::string text = place_text(finding.evidence[0]);
  if (finding.count > 1) text += concat(", ", finding.count, " times");
  if (!finding.ranks.empty()) text += ", " + ranks_text(finding.ranks);
  return text;
}

std::string others_text(const LogDiagnosis& diagnosis, Part part, const char* head, size_t width) {
  std::string out;
  for (const Finding& finding : diagnosis.findings) {
    if (finding.part != part) continue;
    if (out.empty()) out = concat('\n', head, '\n');
    out += fold(concat("  ",
                       finding.row->title,
                       " (",
                       finding.row->name,
                       ")",
                       finding.because.empty() ? "" : ": " + finding.because),
                width,
                4);
    out += fold(concat("    ", seen_text(finding)), width, 4);
    out += quoted(finding.evidence[0].text, 4, width);
  }
  return out;
}

/// What no row stands for; empty if there is nothing.
std::string unexplained_text(const LogDiagnosis& diagnosis, const char* head, size_t width) {
  if (diagnosis.unexplained.empty()) return "";
  std::string out = concat('\n', head, '\n');
  for (const Sighting& line : diagnosis.unexplained)
    out += concat("  ", place_text(line), '\n') + quoted(line.text, 4, width);
  return out;
}

std::string nothing_text(const LogDiagnosis& diagnosis, size_t width) {
  if (diagnosis.bytes == 0) {
    return "nothing recognised: the log is empty\n\n" +
           fold(
               "Errors are written to stderr: `PROGRAM >train.log 2>&1` keeps both. A program that "
               "says nothing: `muster doctor -- PROGRAM`.",
               width,
               0);
  }
  return "nothing recognised: no line is one of the catalogue's errors\n" +
         unexplained_text(diagnosis, "the last lines that speak of a failure:", width) + '\n' +
         fold(
             "To have it added, send: the first error with a hundred lines around it, from every "
             "rank; "
             "the command; the exit code; and what `muster doctor --json` prints on that machine. "
             "A "
             "program that says nothing: `muster doctor -- PROGRAM`.",
             width,
             0);
}

}  // namespace

std::string finding_text(const Finding& first, std::span<const CheckResult> checks, size_t width) {
  std::string out = concat("first cause: ", first.row->title, " (", first.row->name, ")\n");
  out += labelled(
      "confidence",
      concat(confidence_word(first.confidence), first.because.empty() ? "" : ": " + first.because),
      width);
  out += labelled("why", std::string(first.cause->why), width);
  if (!first.cause_is_told) {
    for (const Cause& other : first.row->causes) {
      if (&other != first.cause && other.when.empty() && other.holds == nullptr)
        out += labelled("or", std::string(other.why), width);
    }
  }
  out += labelled("seen", seen_text(first), width);
  out += quoted(first.evidence[0].text, 2 + kLabelColumns, width);
  out += labelled("next step", std::string(first.cause->step), width);
  out += labelled("to prove it", std::string(first.row->confirm), width);
  if (!first.row->source.empty()) out += labelled("more", std::string(first.row->source), width);
  for (const CheckResult& check : checks) {
    out += labelled("here",
                    concat(verdict_word(check.verdict),
                           ": ",
                           check.name,
                           ": ",
                           check.value,
                           check.hint.empty() ? "" : "; " + check.hint),
                    width);
  }
  return out;
}

std::string diagnosis_text(const LogDiagnosis& diagnosis,
                           std::span<const CheckResult> checks,
                           size_t width) {
  const Finding* first = diagnosis.first_cause();
  std::string out =
      first != nullptr ? finding_text(*first, checks, width) : nothing_text(diagnosis, width);
  out += others_text(diagnosis, Part::kConsequence, "what follows from it:", width);
  out += others_text(diagnosis, Part::kAlso, "also seen:", width);
  out += others_text(diagnosis, Part::kWarning, "warnings, of which nothing failed:", width);
  if (first != nullptr && first->confidence == Confidence::kLow)
    out += unexplained_text(diagnosis, "other lines that speak of a failure, the last:", width);
  return out + concat("\nread ",
                      diagnosis.lines,
                      diagnosis.lines == 1 ? " line (" : " lines (",
                      human_bytes(static_cast<uint64_t>(diagnosis.bytes)),
                      ")\n");
}

std::string checks_text(std::span<const CheckResult> results, size_t width) {
  size_t names = 0;
  for (const CheckResult& result : results) names = std::max(names, result.name.size());
  std::string out;
  int counts[3] = {0, 0, 0};
  for (const CheckResult& result : results) {
    ++counts[static_cast<int>(result.verdict)];
    const std::string word(verdict_word(result.verdict));
    out += fold(concat(word,
                       std::string(6 - word.size(), ' '),
                       result.name,
                       std::string(names + 2 - result.name.size(), ' '),
                       result.value),
                width,
                8 + names);
    if (result.verdict == Verdict::kOk) continue;
    out += fold(concat("      right: ", result.rule), width, 13);
    out += fold(concat("      hint: ", result.hint), width, 12);
  }
  return out + concat('\n', counts[0], " ok, ", counts[1], " warn, ", counts[2], " fail\n");
}

}  // namespace muster::diagnose
