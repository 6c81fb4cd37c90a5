#include "muster/diagnose/log/log_reader.h"

#include <algorithm>
#include <compare>
#include <utility>

#include <signal.h>
#include <string.h>

#include "muster/base/text.h"
#include "muster/base/text_table.h"
#include "muster/diagnose/catalogue/fragment_finder.h"
#include "muster/diagnose/catalogue/pattern_set.h"
#include "muster/diagnose/log/counted_text.h"
#include "muster/diagnose/log/line_text.h"
#include "muster/diagnose/log/log_tail.h"
#include "muster/diagnose/log/narrated_text.h"
#include "muster/diagnose/log/ready_catalogue.h"
#include "muster/diagnose/log/seen_row.h"

namespace muster::diagnose {
namespace {

// A longer line is read in pieces that overlap, so that no fragment is cut.
constexpr size_t kMostLineBytes = 1 << 16;
constexpr size_t kOverlapBytes = 512;
constexpr size_t kMostUnexplained = 4;
constexpr size_t kMostNotFinite = 256;
constexpr int kSignalBase = 128;  // a shell's exit code for a child that a signal ended

/// Of the rows that a line fits, one that is sure of it comes before one that others say as well, then
/// one that looks at the line before one that does not, then the longest pattern.
struct Closeness {
  bool is_sure = false, looks = false;
  size_t length = 0;
  auto operator<=>(const Closeness&) const = default;
};

/// Whether the line, which the pattern fits, counts none of what the pattern names, or tells of it only.
bool is_none_of_it(std::string_view line, std::string_view pattern) {
  const auto span = span_of_pattern(line, pattern);
  return span && (is_counted_zero(line, span->first, span->second) ||
                  is_narrated(line, span->first, span->second));
}

}  // namespace

struct LogReader::State {
  /// Where a condition was seen last.
  struct Place {
    size_t source = kNobody;
    int64_t line = 0;
  };

  State();
  void line(std::string_view raw);
  void piece_of_line(std::string_view text);
  void unknown_failure(std::string_view text);
  bool is_wrapped_failure(std::string_view before, std::string_view text);
  void sight(const PatternMeaning& by, Depth depth, std::string_view text);
  void see(size_t row, Depth depth, Sighting sighting, bool warning);
  void note_condition(const PatternMeaning& meaning);
  SeenRow& seen_row(const ErrorRow& row);
  void note_not_finite(size_t row, std::string_view text);
  void overcome_tentative();

  /// A measure that was NaN, and has not been finite since.
  struct NotFinite {
    size_t row = 0;
    std::optional<int64_t> rank;
    std::string measure;
    bool operator==(const NotFinite&) const = default;
  };
  std::vector<NotFinite> not_finite;                 // at most kMostNotFinite
  PatternSet patterns = ready_catalogue().patterns;  // with room of its own to search in
  PatternSet guesses = ready_catalogue().guesses;
  const std::vector<PatternMeaning>& meanings = ready_catalogue().meanings;
  const std::vector<const ErrorRow*>& rows = ready_catalogue().rows;
  std::vector<SeenRow> seen;                   // by row; count 0: not seen
  std::vector<Place> last;                     // of each row's last sighting
  std::vector<std::vector<Place>> conditions;  // by row and cause

  std::vector<std::string> sources;
  std::optional<int64_t> rank;  // of the source
  int64_t line_number = 0;
  bool line_goes_on = false;   // a carriage return or a cut was read, no line end
  bool error_goes_on = false;  // the line before announced an error and did not say it
  std::string unsaid;          // the line before, if it spoke of a failure and no pattern fitted
  std::string pending;
  int64_t sightings = 0;
  std::deque<Sighting> unexplained;
  LogTail tail;
  Narration narration;
  std::string last_line;       // that is not blank, its beginning
  bool has_tentative = false;  // of a row there are sightings that what follows may overcome
  int64_t lines = 0, bytes = 0;
};

LogReader::State::State() {
  for (const ErrorRow* row : rows) {
    seen.push_back({.row = row, .cause_holds = std::vector<bool>(row->causes.size())});
    conditions.emplace_back(row->causes.size());
  }
  last.resize(rows.size());
}

void LogReader::State::see(size_t row, Depth depth, Sighting sighting, bool warning) {
  SeenRow& known = seen[row];
  if (known.count++ == 0) known.first = ++sightings;
  if (depth == Depth::kAsRow) depth = known.row->depth;
  warning = warning && !known.row->counts_as_warning;
  // The first failure is better evidence than warnings before it.
  if (known.only_warnings && !warning) {
    known.evidence.clear();
    known.first = ++sightings;
    known.depth = depth;
  }
  known.only_warnings = known.only_warnings && warning;
  if (!warning) known.depth = std::min(known.depth, depth);
  if (const auto time = glog_time(sighting.text); time && !warning)
    known.said_at = std::min(known.said_at.value_or(*time), *time);
  if (!sighting.rank) {
    known.without_rank = true;
  } else if (known.ranks.size() < SeenRow::kMostRanks) {
    known.ranks.insert(*sighting.rank);
  }
  if (known.evidence.size() < SeenRow::kMostEvidence && (!warning || known.only_warnings))
    known.evidence.push_back(std::move(sighting));
}

void LogReader::State::sight(const PatternMeaning& by, Depth depth, std::string_view text) {
  const size_t row = by.row;
  const bool is_warning = is_warning_line(text) && !by.pattern->in_warnings;
  if ((is_warning && !rows[row]->counts_as_warning) || is_tried_again(text) ||
      narration.is_in_warning()) {
    ++seen[row].tentative;
    has_tentative = true;
  }
  LinePrefix prefix = line_prefix(text);
  if (!prefix.rank) prefix.rank = rank;
  see(row,
      depth,
      {.source = sources.back(),
       .line = line_number,
       .rank = prefix.rank,
       .text = shown_text(text)},
      is_warning);
  last[row] = {sources.size(), line_number};
  for (size_t cause = 0; cause < rows[row]->causes.size(); ++cause) {
    const auto holds = rows[row]->causes[cause].holds;
    const Place& at = conditions[row][cause];
    const bool is_near = at.source == sources.size() && line_number - at.line <= kNearLines;
    if (is_near || (holds != nullptr && holds(text))) seen[row].cause_holds[cause] = true;
  }
}

void LogReader::State::note_condition(const PatternMeaning& meaning) {
  conditions[meaning.row][meaning.cause] = {sources.size(), line_number};
  const Place& row = last[meaning.row];
  if (row.source == sources.size() && line_number - row.line <= kNearLines)
    seen[meaning.row].cause_holds[meaning.cause] = true;
}

void LogReader::State::piece_of_line(std::string_view raw) {
  std::string clean;
  std::string_view text = raw;
  if (raw.find('\x1b') != std::string_view::npos) text = clean = without_escapes(raw);
  if (text.find("\xe2\x80") != std::string_view::npos) text = clean = with_plain_quotes(text);
  // "what():  " and "RuntimeError:" may be all of a line; what they announce is on the next.
  const bool is_announced = std::exchange(error_goes_on, announces_error(text));
  const std::string before = std::exchange(unsaid, {});
  if (!not_finite.empty()) {
    const auto said_by = line_prefix(text).rank;
    std::erase_if(not_finite, [&](const NotFinite& open) {
      return (said_by ? said_by : rank) == open.rank && is_finite_again(text, open.measure);
    });
  }
  if (narration.tells(without_prefix(text))) return;
  if (text.find_first_not_of(" \t") != text.npos) last_line = text.substr(0, kMostTextBytes);
  if (has_tentative && tells_success(text)) overcome_tentative();
  if (tells_what_goes_well(text) || is_row_of_measures(text)) return;
  const PatternMeaning* best_meaning = nullptr;
  Depth best_depth = Depth::kAsRow;
  bool is_denied = is_warning_line(text);  // by what it says of itself, or of what a pattern names
  Closeness best;
  for (const size_t number : patterns.fitting(text)) {
    const PatternMeaning& meaning = meanings[number];
    if (meaning.cause != kNobody) {
      note_condition(meaning);
      continue;
    }
    const bool looks = meaning.pattern->holds != nullptr;
    if ((looks && !meaning.pattern->holds(text.substr(line_prefix(text).length))) ||
        is_none_of_it(text, meaning.pattern->text)) {
      is_denied = true;
      continue;
    }
    const Depth depth =
        meaning.pattern->depth == Depth::kAsRow ? rows[meaning.row]->depth : meaning.pattern->depth;
    const Closeness here{depth != Depth::kPerhaps, looks, meaning.pattern->text.size()};
    if (best_meaning != nullptr && here <= best) continue;
    best_meaning = &meaning;
    best = here;
    best_depth = depth;
  }
  if (best_meaning == nullptr && !is_denied) tail.add(sources.back(), line_number, rank, text);
  if (best_meaning != nullptr) {
    sight(*best_meaning, best_depth, text);
    if (best_depth == Depth::kPerhaps && rows[best_meaning->row]->name == "not-a-number")
      note_not_finite(best_meaning->row, text);
  } else if (!before.empty() && is_wrapped_failure(before, text)) {
    return;
  } else if ((is_announced || speaks_of_failure(text)) && !is_warning_line(text) &&
             !is_narrated(text, 0, text.size())) {
    unknown_failure(text);
  }
}

/// A loss may be NaN before the first step, or in a step that is skipped: it is no failure if it is finite again.
void LogReader::State::note_not_finite(size_t row, std::string_view text) {
  const std::string_view measure = measure_that_is_nan(text);
  if (measure.empty()) return;
  const auto said_by = line_prefix(text).rank;
  NotFinite open{.row = row, .rank = said_by ? said_by : rank, .measure = std::string(measure)};
  const bool is_known = std::ranges::find(not_finite, open) != not_finite.end();
  if (!is_known && not_finite.size() >= kMostNotFinite) return;
  if (!is_known) not_finite.push_back(std::move(open));
  ++seen[row].passing;
}

/// What was tried again, and what was warned of, was no failure: what came of it went well.
void LogReader::State::overcome_tentative() {
  for (SeenRow& row : seen) row.overcome = row.tentative;
  has_tentative = false;
}

/// Terminals and mail cut a message into lines, between words or within one: of two lines that no pattern
/// fits, what stands across the cut.
bool LogReader::State::is_wrapped_failure(std::string_view before, std::string_view text) {
  constexpr size_t kAcross = 160;
  if (before.size() > kAcross) before.remove_prefix(before.size() - kAcross);
  const std::string_view behind = text.substr(0, kAcross);
  for (const std::string_view between : {" ", ""}) {
    const std::string joined = concat(before, between, behind);
    for (const size_t number : patterns.fitting(joined)) {
      const PatternMeaning& meaning = meanings[number];
      const bool is_plain = meaning.cause == kNobody && meaning.pattern->holds == nullptr &&
                            meaning.pattern->text.find('*') == std::string_view::npos;
      if (!is_plain || is_warning_line(before)) continue;
      sight(meaning,
            meaning.pattern->depth == Depth::kAsRow ? rows[meaning.row]->depth
                                                    : meaning.pattern->depth,
            joined);
      return true;
    }
  }
  return false;
}

/// A line that no pattern is meant for: the longest guess, or one of the last lines of its kind.
void LogReader::State::unknown_failure(std::string_view text) {
  const PatternMeaning* best = nullptr;
  for (const size_t number : guesses.fitting(text)) {
    const PatternMeaning& meaning = ready_catalogue().guess_meanings[number];
    if (best == nullptr || meaning.pattern->text.size() > best->pattern->text.size())
      best = &meaning;
  }
  if (best != nullptr) {
    sight(*best, std::max(Depth::kGuess, rows[best->row]->depth), text);
    return;
  }
  unsaid = text;
  unexplained.push_back({.source = sources.back(),
                         .line = line_number,
                         .rank = line_prefix(text).rank,
                         .text = shown_text(text)});
  if (unexplained.size() > kMostUnexplained) unexplained.pop_front();
}

void LogReader::State::line(std::string_view raw) {
  if (!line_goes_on) {
    ++line_number;
    ++lines;
  }
  if (line_number == 1) {  // a mark of the byte order is no text
    for (const std::string_view mark : {"\xff\xfe", "\xfe\xff", "\xef\xbb\xbf"}) {
      if (raw.starts_with(mark)) raw.remove_prefix(mark.size());
    }
  }
  if (!raw.empty()) piece_of_line(raw);
}

LogReader::LogReader() : state_(std::make_unique<State>()) { state_->sources.emplace_back("text"); }
LogReader::~LogReader() = default;

void LogReader::begin(std::string source, std::optional<int64_t> rank) {
  end();
  state_->rank = rank;
  state_->sources.push_back(std::move(source));
  state_->line_number = 0;
}

void LogReader::read(std::string_view bytes) {
  State& state = *state_;
  state.bytes += static_cast<int64_t>(bytes.size());
  // A zero byte is half a letter of UTF-16 (PowerShell writes logs so), or a hole where a log that
  // somebody held open was cut. Letters of ASCII are what is left.
  std::string without_zeros;
  if (bytes.find('\0') != std::string_view::npos) {
    without_zeros = bytes;
    std::erase(without_zeros, '\0');
    bytes = without_zeros;
  }
  while (!bytes.empty()) {
    const size_t stop = bytes.find_first_of("\n\r");
    const size_t room = kMostLineBytes - std::min(kMostLineBytes, state.pending.size());
    if (std::min(stop, bytes.size()) > room) {  // too long: a piece of it
      state.pending += bytes.substr(0, room);
      bytes.remove_prefix(room);
      state.line(state.pending);
      state.line_goes_on = true;
      state.pending.erase(0, state.pending.size() - kOverlapBytes);
      continue;
    }
    state.pending += bytes.substr(0, stop);
    if (stop == std::string_view::npos) return;
    // A line that is nothing but an end counts as well; one behind a carriage return does not.
    const bool is_end = bytes[stop] == '\n';
    if (!state.pending.empty() || (is_end && !state.line_goes_on)) state.line(state.pending);
    state.line_goes_on = !is_end && (state.line_goes_on || !state.pending.empty());
    state.pending.clear();
    bytes.remove_prefix(stop + 1);
  }
}

void LogReader::end() {
  State& state = *state_;
  if (!state.pending.empty()) state.line(state.pending);
  state.pending.clear();
  state.line_goes_on = false;
}

void LogReader::program_ended(const ProgramEnd& end) {
  State& state = *state_;
  const int signal = end.signal != 0 ? end.signal : std::max(0, end.exit_code - kSignalBase);
  const char* name = signal == SIGKILL   ? "killed"
                     : signal == SIGBUS  ? "shm-exhausted"
                     : signal == SIGSEGV ? "segmentation-fault"
                                         : nullptr;
  if (name == nullptr) return;
  const auto row = std::ranges::find(state.rows, std::string_view(name), &ErrorRow::name);
  if (row == state.rows.end()) return;
  std::string text = end.signal != 0 ? concat("ended by SIG", ::sigabbrev_np(signal))
                                     : concat("ended with exit code ", end.exit_code);
  if (end.most_resident_bytes > 0)
    text += concat("; its largest process had ",
                   human_bytes(static_cast<uint64_t>(end.most_resident_bytes)),
                   " in memory");
  const auto at = static_cast<size_t>(row - state.rows.begin());
  const bool by_kernel = signal == SIGKILL && end.oom_kills.value_or(0) > 0;
  if (signal == SIGKILL && end.oom_kills)
    text += concat("; the control group's oom_kill counter rose by ", *end.oom_kills);
  state.see(at, Depth::kAsRow, {.source = "the program", .text = std::move(text)}, false);
  if (!by_kernel) return;
  const auto& causes = (*row)->causes;
  for (size_t cause = 0; cause < causes.size(); ++cause) {
    if (causes[cause].when == "cgroup out of memory") state.seen[at].cause_holds[cause] = true;
  }
}

LogDiagnosis LogReader::diagnosis() const {
  LogDiagnosis diagnosis;
  std::vector<SeenRow> seen;
  // That a program ended itself says nothing where a line says of what, though in words that nobody knows.
  const auto is_told_elsewhere = [&](const SeenRow& row) {
    return row.row->name == "aborted" && !state_->unexplained.empty() &&
           std::ranges::find(row.cause_holds, true) == row.cause_holds.end();
  };
  std::ranges::copy_if(state_->seen, std::back_inserter(seen), [&](const SeenRow& row) {
    return row.count > 0 && !is_told_elsewhere(row);
  });
  for (SeenRow& row : seen) {
    const bool is_open = std::ranges::any_of(
        state_->not_finite, [&](const auto& open) { return state_->rows[open.row] == row.row; });
    row.has_passed = row.passing == row.count && !is_open;
    row.only_warnings = row.only_warnings || row.has_passed || row.overcome == row.count;
  }
  diagnosis.findings = findings_of(seen);
  // Words of an end that says that all went well are like those of no failure.
  if (diagnosis.first_cause() == nullptr && !tells_success(state_->last_line)) {
    if (const auto guess = state_->tail.guess())
      diagnosis.findings = findings_of(with_guess(std::move(seen), *guess));
  }
  diagnosis.unexplained.assign(state_->unexplained.begin(), state_->unexplained.end());
  diagnosis.lines = state_->lines;
  diagnosis.bytes = state_->bytes;
  return diagnosis;
}

}  // namespace muster::diagnose
