// HyperBand: brackets of successive halving, from many trials that are judged early to few that are
// judged late. Source: Li et al. 2018 ("Hyperband: A Novel Bandit-Based Approach to Hyperparameter
// Optimization"), Algorithm 1; hyperband_brackets() has its numbers.
//
// Trials fill the brackets in turn, and pause at each rung until all of their bracket are there; then
// the best go on from their checkpoints. Nothing waits for a bracket but its own trials: a slot that
// is free takes one that may go on, of the oldest bracket first, or else a new trial for the bracket
// that is open. When no more trials come, the open bracket halves with those that it has.
//
// Left of Ray Tune's HyperBandScheduler (ray 2.60) on purpose:
// - The largest bracket is filled first, as in the paper (`order = smallest` is Ray's order), and
//   floor(n / eta^i) go on, not ceil(n / eta).
// - Brackets and rungs are whole numbers, not logarithms, and there are brackets with r > 1.
// - A score that is not finite is the worst there is, and its trial is stopped at its next rung.
// - A trial that fails counts as the worst of its rung: so many go on as the paper says.
#include <algorithm>
#include <cmath>
#include <limits>
#include <list>
#include <utility>

#include "muster/base/text.h"
#include "muster/tune/schedule/hyperband/bracket_run.h"
#include "muster/tune/schedule/hyperband/hyperband_options.h"
#include "muster/tune/schedule/score_text.h"

namespace muster::tune {
namespace {

constexpr Param kHyperbandParams[] = {
    param<&HyperbandOptions::max_t>("max_t", "the most that a trial is trained"),
    param<&HyperbandOptions::grace_period>("grace_period",
                                           "the lowest rung: no trial is judged before"),
    param<&HyperbandOptions::reduction_factor>("reduction_factor",
                                               "one of so many goes on at each rung"),
    param<&HyperbandOptions::order>("order",
                                    "largest (the bracket with the most trials first) or smallest"),
    param<&HyperbandOptions::stop_last_trials>("stop_last_trials", "trials end at max_t"),
    param<&HyperbandOptions::of>("of", kOfHelp)};

constexpr int64_t kHyperbandMaxT = int64_t{1} << 53;
constexpr size_t kShownBrackets = 5;  // in the status

void hyperband_requires(bool holds, std::string_view rule, std::string value) {
  if (holds) return;
  throw usage_error(
      {.refused = "scheduler hyperband", .rule = std::string(rule), .value = std::move(value)});
}

void check_hyperband(const HyperbandOptions& o) {
  hyperband_requires(o.grace_period >= 1 && o.grace_period <= o.max_t && o.max_t <= kHyperbandMaxT,
                     "1 <= grace_period <= max_t <= 2^53",
                     concat("grace_period=", o.grace_period, ",max_t=", o.max_t));
  hyperband_requires(o.reduction_factor >= 2,
                     "reduction_factor is a whole number, and at least 2",
                     concat("reduction_factor=", o.reduction_factor));
  hyperband_requires(o.order == "largest" || o.order == "smallest",
                     "order is largest or smallest",
                     '"' + o.order + '"');
}

class Hyperband final : public Scheduler {
 public:
  Hyperband(const SchedulerContext& context, const HyperbandOptions& options)
      : context_(context),
        options_(options),
        plans_(hyperband_brackets(options.grace_period, options.max_t, options.reduction_factor)) {
    if (options.order == "smallest") std::ranges::reverse(plans_);
  }

  void on_start(int64_t number, const Point& /*point*/) override { trial_of(number); }

  Decision on_report(int64_t number, int64_t t, double score) override {
    Progress& trial = trial_of(number);
    require_rising(number, trial.last_t, t);
    trial.last_t = t;
    if (trial.bracket == nullptr) return {};
    if (t >= options_.max_t) return at_max_t(number, trial);
    BracketRun& bracket = *trial.bracket;
    if (t < bracket.rung()) return {};
    const std::string rung = bracket.rung_text();
    if (!std::isfinite(score)) {
      return {Action::kStop,
              concat("stopped at ",
                     rung,
                     ": ",
                     context_.metric,
                     " is ",
                     metric_text(score, context_.mode))};
    }
    bracket.pausing(number, t, score);
    return {Action::kPause, concat("paused at ", rung, ": ", metric_text(score, context_.mode))};
  }

  void on_pause(int64_t number) override {
    const auto trial = trials_.find(number);
    if (trial != trials_.end() && trial->second.bracket != nullptr)
      trial->second.bracket->waits(number);
  }

  void on_end(int64_t number, TrialState /*state*/) override {
    const auto trial = trials_.find(number);
    if (trial == trials_.end()) return;
    leave_bracket(number, trial->second);
    trials_.erase(trial);
  }

  bool pauses() const override { return true; }
  bool donors_may_be_over() const override { return false; }

  void no_more_trials() override {
    if (!brackets_.empty() && brackets_.back().is_open()) brackets_.back().close();
    drop_done();
  }

  /// First those that end: they fill no slot, and a searcher may learn from them.
  std::optional<Promotion> promote() override {
    for (BracketRun& bracket : brackets_) {
      if (auto order = bracket.take_end()) return order;
    }
    for (BracketRun& bracket : brackets_) {
      if (auto order = bracket.take_up()) return order;
    }
    return std::nullopt;
  }

  std::string status() const override {
    std::string text =
        concat("hyperband: reduction ", options_.reduction_factor, ", max_t ", options_.max_t);
    std::string_view separator = ": ";
    size_t shown = 0;
    for (const BracketRun& bracket : brackets_) {
      if (shown++ == kShownBrackets) break;
      text += concat(separator, bracket.text());
      separator = "; ";
    }
    if (brackets_.size() > kShownBrackets)
      text += concat("; ", brackets_.size() - kShownBrackets, " more");
    return text;
  }

 private:
  struct Progress {
    BracketRun* bracket = nullptr;  // null: it has left it, and goes on
    int64_t last_t = std::numeric_limits<int64_t>::min();
  };

  Progress& trial_of(int64_t number) {
    const auto [trial, is_new] = trials_.try_emplace(number);
    if (is_new) {
      trial->second.bracket = &open_bracket();
      trial->second.bracket->join(number);
    }
    return trial->second;
  }

  BracketRun& open_bracket() {
    if (brackets_.empty() || !brackets_.back().is_open()) {
      brackets_.emplace_back(
          plans_[begun_++ % plans_.size()], options_.reduction_factor, context_.mode);
    }
    return brackets_.back();
  }

  /// Without stop_last_trials it goes on by itself, and its bracket is not to wait for it.
  Decision at_max_t(int64_t number, Progress& trial) {
    if (options_.stop_last_trials)
      return {Action::kStop, concat("reached max_t ", options_.max_t), true};
    leave_bracket(number, trial);
    return {};
  }

  void leave_bracket(int64_t number, Progress& trial) {
    if (trial.bracket == nullptr) return;
    std::exchange(trial.bracket, nullptr)->leave(number);
    drop_done();
  }
  void drop_done() {
    brackets_.remove_if([](const BracketRun& bracket) { return bracket.is_done(); });
  }

  SchedulerContext context_;
  HyperbandOptions options_;
  std::vector<HyperbandBracket> plans_;  // in the order in which they are filled
  size_t begun_ = 0;                     // brackets
  std::list<BracketRun> brackets_;       // that are not done, the oldest first
  std::unordered_map<int64_t, Progress> trials_;
};

std::unique_ptr<Scheduler> make_hyperband(const SchedulerContext& context,
                                          const ParamValues& params) {
  const auto options =
      resolve_params<HyperbandOptions>(kHyperbandParams, params, "scheduler hyperband");
  check_hyperband(options);
  return std::make_unique<Hyperband>(context, options);
}

}  // namespace

std::string hyperband(const HyperbandOptions& options) {
  check_hyperband(options);
  return spec_text("hyperband", kHyperbandParams, options);
}

extern constinit const SchedulerEntry hyperband_entry{
    "hyperband",
    "many trials judged early to few judged late, in brackets of successive halving",
    kHyperbandParams,
    &make_hyperband};

}  // namespace muster::tune
