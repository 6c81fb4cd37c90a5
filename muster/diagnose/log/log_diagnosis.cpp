#include "muster/diagnose/log/log_diagnosis.h"

#include <algorithm>

#include "muster/base/text.h"
#include "muster/diagnose/log/log_reader.h"
#include "muster/diagnose/log/seen_row.h"

namespace muster::diagnose {
namespace {

/// Whether every rank that says `late` had said `early` before.
bool is_said_after(const SeenRow& late, const SeenRow& early) {
  return early.first < late.first && !late.ranks.empty() && !late.without_rank &&
         std::ranges::includes(early.ranks, late.ranks);
}

/// Before all others: the smaller one.
bool is_nearer(const SeenRow& a, const SeenRow& b) {
  if (a.depth != b.depth) return a.depth < b.depth;
  // Processes write into a log in no order; where both have a clock, it decides.
  if (a.said_at && b.said_at && *a.said_at != *b.said_at) return *a.said_at < *b.said_at;
  return a.first < b.first;
}

/// The row that the others follow from, or null. A cause that is said only by ranks which had lost
/// their peers before follows from that loss.
const SeenRow* first_of(const std::vector<SeenRow>& seen) {
  const SeenRow* first = nullptr;
  for (const SeenRow& row : seen) {
    if (row.only_warnings) continue;
    const bool after_peers =
        row.depth < Depth::kPeer && std::ranges::any_of(seen, [&](const SeenRow& other) {
          return other.depth == Depth::kPeer && !other.only_warnings && is_said_after(row, other);
        });
    if (after_peers) continue;
    if (first == nullptr || is_nearer(row, *first)) first = &row;
  }
  return first;
}

std::string rank_words(const std::set<int64_t>& ranks) {
  if (ranks.empty()) return "";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  size_t shown = 0;
  for (const int64_t rank : ranks) {
    if (shown == 6) return text + ", …";
    text += concat(shown++ == 0 ? "" : ", ", rank);
  }
  return text;
}

/// Why a row follows from the first cause; empty if nothing says so.
std::string why_it_follows(const SeenRow& row, const SeenRow& first) {
  const std::string who = rank_words(first.ranks);
  switch (row.depth) {
    case Depth::kPeer:
      return first.depth == Depth::kPeer
                 ? "ranks that wait for each other say it in several ways"
                 : concat("ranks say this when another one",
                          who.empty() ? std::string() : concat(" (", who, ")"),
                          " has failed");
    case Depth::kLate:
      return first.depth == Depth::kCause && first.first < row.first
                 ? "a device that has failed answers later calls like this"
                 : "";
    case Depth::kEnd:
      return "how processes end after a failure, or are ended by their launcher";
    case Depth::kPerhaps:
      return "comes with many failures";
    default:
      return first.depth == Depth::kPeer ? "said by ranks that had lost their peers before" : "";
  }
}

Confidence confidence_of(const SeenRow& seen, bool told) {
  if (seen.by_likeness || seen.depth == Depth::kPerhaps || seen.depth == Depth::kGuess)
    return Confidence::kLow;
  if (seen.depth == Depth::kPeer) return Confidence::kLow;
  if (told || seen.row->causes.size() == 1)
    return seen.depth == Depth::kLate ? Confidence::kMedium : Confidence::kHigh;
  return Confidence::kMedium;
}

/// The cause that holds, or the first without conditions.
std::pair<const Cause*, bool> cause_of(const SeenRow& seen) {
  const auto& causes = seen.row->causes;
  for (size_t i = 0; i < causes.size(); ++i) {
    if (seen.cause_holds[i]) return {&causes[i], true};
  }
  const auto likeliest = std::ranges::find_if(
      causes, [](const Cause& cause) { return cause.when.empty() && cause.holds == nullptr; });
  return {&*likeliest, false};
}

Finding finding_of(const SeenRow& seen, const SeenRow* first) {
  const auto [cause, told] = cause_of(seen);
  Finding finding{.row = seen.row,
                  .cause = cause,
                  .cause_is_told = told,
                  .confidence = confidence_of(seen, told),
                  .by_likeness = seen.by_likeness,
                  .evidence = seen.evidence,
                  .count = seen.count,
                  .ranks = {seen.ranks.begin(), seen.ranks.end()}};
  if (&seen == first) {
    finding.part = Part::kFirstCause;
    if (seen.depth == Depth::kPeer)
      finding.because =
          "this is what the other ranks say when one fails: what that one said is not here";
    if (seen.by_likeness)
      finding.because =
          "no line is known; the words of the last lines are most like those of this error";
  } else if (seen.only_warnings || first == nullptr) {
    finding.part = Part::kWarning;
    if (seen.has_passed) finding.because = "it was finite again afterwards";
    if (seen.overcome == seen.count) finding.because = "what was done went well afterwards";
  } else {
    finding.because = why_it_follows(seen, *first);
    finding.part = finding.because.empty() ? Part::kAlso : Part::kConsequence;
  }
  return finding;
}

}  // namespace

std::vector<Finding> findings_of(const std::vector<SeenRow>& seen) {
  const SeenRow* first = first_of(seen);
  std::vector<const SeenRow*> order;
  for (const SeenRow& row : seen) order.push_back(&row);
  std::ranges::sort(order, [](const SeenRow* a, const SeenRow* b) { return a->first < b->first; });
  std::vector<Finding> findings;
  for (const SeenRow* row : order) findings.push_back(finding_of(*row, first));
  std::ranges::stable_sort(findings, {}, &Finding::part);
  return findings;
}

const Finding* LogDiagnosis::first_cause() const {
  return !findings.empty() && findings[0].part == Part::kFirstCause ? findings.data() : nullptr;
}

std::string_view confidence_word(Confidence confidence) {
  if (confidence == Confidence::kHigh) return "high";
  return confidence == Confidence::kMedium ? "medium" : "low";
}

std::string_view part_word(Part part) {
  switch (part) {
    case Part::kFirstCause:
      return "first cause";
    case Part::kConsequence:
      return "consequence";
    case Part::kAlso:
      return "also";
    default:
      return "warning";
  }
}

LogDiagnosis classify(std::string_view text) {
  LogReader reader;
  reader.begin("text");
  reader.read(text);
  reader.end();
  return reader.diagnosis();
}

}  // namespace muster::diagnose
