#include "muster/tune/core/heard_calls.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/core/search_desk.h"

namespace muster::tune {
namespace {

// The first letter of a line; capitals are the searcher's.
constexpr char kCallSuggested = 'S', kCallReported = 'R', kCallPaused = 'P', kCallTold = 'T';
constexpr char kCallStart = 's', kCallReport = 'r', kCallCheckpoint = 'c', kCallEnd = 'e',
               kCallPause = 'p', kCallPromote = 'o', kCallResume = 'g', kCallNoMore = 'l';

constexpr char kMemo = '\t';  // what is behind it is the memo

void append_call(std::string& text, int64_t number) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  text.push_back(' ');
  text.append(digits.data(), end);
}

/// With the fewest digits that read back as the same value.
void append_call(std::string& text, double number) {
  text.push_back(' ');
  if (std::isnan(number)) {
    text += "nan";  // whatever its sign
    return;
  }
  std::array<char, 40> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  text.append(digits.data(), end);
}

void append_call(std::string& text, const std::vector<double>& numbers) {
  for (const double number : numbers) append_call(text, number);
}

/// On one line.
void append_memo(std::string& text, std::string_view memo) {
  if (memo.empty()) return;
  text.push_back(kMemo);
  for (const char c : memo) {
    if (c == '\n' || c == '\\') text.push_back('\\');
    text.push_back(c == '\n' ? 'n' : c);
  }
}

std::string memo_in(std::string_view text) {
  std::string memo;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text[i] == '\\' && i + 1 < text.size();
    if (escaped) ++i;
    memo.push_back(escaped && text[i] == 'n' ? '\n' : text[i]);
  }
  return memo;
}

/// Takes a line apart.
class CallLine {
 public:
  explicit CallLine(std::string_view line) : line_(line), rest_(line.substr(0, line.find(kMemo))) {
    if (rest_.size() < line.size()) memo_ = line.substr(rest_.size() + 1);
    if (rest_.empty()) bad();
    call_ = rest_[0];
    rest_.remove_prefix(1);
  }

  char call() const { return call_; }
  std::string memo() const { return memo_in(memo_); }

  template <class Number>
  Number next() {
    if (rest_.empty() || rest_[0] != ' ') bad();
    Number number{};
    const char* begin = rest_.data() + 1;
    const auto [end, error] = std::from_chars(begin, rest_.data() + rest_.size(), number);
    if (error != std::errc()) bad();
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return number;
  }
  int64_t integer() { return next<int64_t>(); }
  double number() { return next<double>(); }

  std::vector<double> numbers(size_t count) {
    std::vector<double> numbers(count);
    for (double& one : numbers) one = number();
    return numbers;
  }

  template <class Enum>
  Enum one_of(int64_t count) {
    const int64_t value = integer();
    if (value < 0 || value >= count) bad();
    return static_cast<Enum>(value);
  }

  void done() const {
    if (!rest_.empty()) bad();
  }

  [[noreturn]] void bad() const {
    throw internal_error({.refused = "a call that is stored beside the study's log",
                          .rule = "it is as this version writes it",
                          .value = std::string(line_)});
  }

 private:
  std::string_view line_, rest_, memo_;
  char call_ = 0;
};

constexpr int64_t kTrialStates = static_cast<int64_t>(TrialState::kFailed) + 1;

FinishedTrial finished_in(CallLine& line, size_t dimensions) {
  FinishedTrial trial;
  trial.number = line.integer();
  trial.state = line.one_of<TrialState>(kTrialStates);
  trial.score = line.number();
  trial.step = line.integer();
  trial.failure = line.one_of<Failure>(static_cast<int64_t>(kFailures));
  trial.violation = line.number();
  const int64_t scores = line.integer();
  if (scores < 0 || scores > 1'000'000) line.bad();
  trial.scores = line.numbers(static_cast<size_t>(scores));
  trial.point = line.numbers(dimensions);
  return trial;
}

/// False: it is no call to a searcher.
bool tell_searcher(CallLine& line, size_t dimensions, SearchDesk& searcher) {
  if (line.call() == kCallTold) {
    const FinishedTrial trial = finished_in(line, dimensions);
    line.done();
    searcher.told(trial);
    return true;
  }
  if (line.call() != kCallSuggested && line.call() != kCallReported && line.call() != kCallPaused)
    return false;
  const int64_t number = line.integer();
  if (line.call() == kCallSuggested) {
    const Point point = line.numbers(dimensions);
    line.done();
    searcher.suggested(number, point, line.memo());
  } else if (line.call() == kCallReported) {
    const int64_t t = line.integer();
    const double score = line.number();
    line.done();
    searcher.reported(number, t, score);
  } else {
    line.done();
    searcher.paused(number);
  }
  return true;
}

void tell_of_trial(CallLine& line, size_t dimensions, Scheduler& scheduler) {
  const int64_t number = line.integer();
  switch (line.call()) {
    case kCallStart:
      return scheduler.on_start(number, line.numbers(dimensions));
    case kCallReport: {
      const int64_t t = line.integer();
      scheduler.on_report(number, t, line.number());
      return;
    }
    case kCallCheckpoint:
      return scheduler.on_checkpoint(number, line.integer());
    case kCallEnd:
      return scheduler.on_end(number, line.one_of<TrialState>(kTrialStates));
    case kCallPause:
      return scheduler.on_pause(number);
    case kCallResume:
      return scheduler.on_resume(number, line.numbers(dimensions));
    default:
      line.bad();
  }
}

void tell_scheduler(CallLine& line, size_t dimensions, Scheduler& scheduler) {
  if (line.call() == kCallPromote) {
    if (!scheduler.promote()) line.bad();
  } else if (line.call() == kCallNoMore) {
    scheduler.no_more_trials();
  } else {
    tell_of_trial(line, dimensions, scheduler);
  }
  line.done();
}

}  // namespace

void tell_again(std::string_view lines,
                size_t dimensions,
                SearchDesk* searcher,
                Scheduler* scheduler) {
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    CallLine line(lines.substr(0, end));
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
    const bool is_searchers = line.call() >= 'A' && line.call() <= 'Z';
    if (is_searchers && searcher != nullptr && !tell_searcher(line, dimensions, *searcher))
      line.bad();
    if (!is_searchers && scheduler != nullptr) tell_scheduler(line, dimensions, *scheduler);
  }
}

void HeardCalls::keep_behind(int64_t event, bool searcher, bool scheduler) {
  stop();
  since_ = event;
  of_searcher_ = searcher;
  of_scheduler_ = scheduler;
}

void HeardCalls::stop() {
  of_searcher_ = of_scheduler_ = false;
  text_ = {};
  marks_ = {};
}

/// Whether the call is to be written down; then its event has a mark.
bool HeardCalls::begins(bool wanted) {
  if (!wanted || next_event_ <= since_) return false;
  if (marks_.empty() || marks_.back().event < next_event_)
    marks_.push_back({.event = next_event_, .place = text_.size()});
  return true;
}

std::string HeardCalls::behind(int64_t event) const {
  const auto mark = std::ranges::upper_bound(marks_, event, {}, &Mark::event);
  return mark == marks_.end() ? "" : text_.substr(mark->place);
}

void HeardCalls::forget_up_to(int64_t event) {
  const auto mark = std::ranges::upper_bound(marks_, event, {}, &Mark::event);
  const size_t place = mark == marks_.end() ? text_.size() : mark->place;
  marks_.erase(marks_.begin(), mark);
  text_.erase(0, place);
  for (Mark& one : marks_) one.place -= place;
  since_ = std::max(since_, event);
}

void HeardCalls::suggested(int64_t number, const Point& point, std::string_view memo) {
  if (!begins(of_searcher_)) return;
  text_.push_back(kCallSuggested);
  append_call(text_, number);
  append_call(text_, point);
  append_memo(text_, memo);
  text_.push_back('\n');
}

void HeardCalls::reported(int64_t number, int64_t t, double score) {
  if (!begins(of_searcher_)) return;
  text_.push_back(kCallReported);
  append_call(text_, number);
  append_call(text_, t);
  append_call(text_, score);
  text_.push_back('\n');
}

void HeardCalls::paused(int64_t number) {
  if (!begins(of_searcher_)) return;
  text_.push_back(kCallPaused);
  append_call(text_, number);
  text_.push_back('\n');
}

void HeardCalls::told(const FinishedTrial& trial) {
  if (!begins(of_searcher_)) return;
  text_.push_back(kCallTold);
  append_call(text_, trial.number);
  append_call(text_, static_cast<int64_t>(trial.state));
  append_call(text_, trial.score);
  append_call(text_, trial.step);
  append_call(text_, static_cast<int64_t>(trial.failure));
  append_call(text_, trial.violation);
  append_call(text_, static_cast<int64_t>(trial.scores.size()));
  append_call(text_, trial.scores);
  append_call(text_, trial.point);
  text_.push_back('\n');
}

void HeardCalls::on_start(int64_t number, const Point& point) {
  if (!begins(of_scheduler_)) return;
  text_.push_back(kCallStart);
  append_call(text_, number);
  append_call(text_, point);
  text_.push_back('\n');
}

void HeardCalls::on_report(int64_t number, int64_t t, double score) {
  if (!begins(of_scheduler_)) return;
  text_.push_back(kCallReport);
  append_call(text_, number);
  append_call(text_, t);
  append_call(text_, score);
  text_.push_back('\n');
}

void HeardCalls::on_checkpoint(int64_t number, int64_t t) {
  if (!begins(of_scheduler_)) return;
  text_.push_back(kCallCheckpoint);
  append_call(text_, number);
  append_call(text_, t);
  text_.push_back('\n');
}

void HeardCalls::on_end(int64_t number, TrialState state) {
  if (!begins(of_scheduler_)) return;
  text_.push_back(kCallEnd);
  append_call(text_, number);
  append_call(text_, static_cast<int64_t>(state));
  text_.push_back('\n');
}

void HeardCalls::on_pause(int64_t number) {
  if (!begins(of_scheduler_)) return;
  text_.push_back(kCallPause);
  append_call(text_, number);
  text_.push_back('\n');
}

void HeardCalls::promoted() {
  if (!begins(of_scheduler_)) return;
  text_.push_back(kCallPromote);
  text_.push_back('\n');
}

void HeardCalls::on_resume(int64_t number, const Point& point) {
  if (!begins(of_scheduler_)) return;
  text_.push_back(kCallResume);
  append_call(text_, number);
  append_call(text_, point);
  text_.push_back('\n');
}

void HeardCalls::no_more_trials() {
  if (!begins(of_scheduler_)) return;
  text_.push_back(kCallNoMore);
  text_.push_back('\n');
}

}  // namespace muster::tune
