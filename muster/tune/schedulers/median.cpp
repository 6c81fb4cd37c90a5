// Median stopping in two readings.
//
// `ray` (ray 2.60, MedianStoppingRule; Golovin et al. 2017, "Google Vizier", section 3.5.2): at each
// report from grace_period on, a trial is stopped whose best score so far is below the median of the
// other trials' means over [grace_period, t]. Others are all trials, running or over, that have come
// to t; with fewer than min_samples_required of them nobody is stopped.
//
// `optuna` (optuna 5.0, MedianPruner and PercentilePruner): a trial is stopped whose best score so far
// is below the percentile of the scores that *complete* trials reported at the *same* step. Nobody is
// stopped before n_startup_trials are complete, so that with few slots this reading begins late.
//
// Where Ray is left on purpose: a trial whose others are too few is not paused to let others have
// its slot (min_time_slice); a trial's own score that is not finite counts for nothing, while Ray
// has the NaN of a first report be the best for ever; its last report counts once in its mean, while
// Ray books it again when the trial ends. Where Optuna is left: minimising is maximising mirrored,
// also where an infinity is beside the percentile, and numpy's interpolation gives NaN for one of them.
#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <unordered_map>

#include "muster/base/text.h"
#include "muster/tune/schedule/median/median_options.h"
#include "muster/tune/schedule/median/running_means.h"
#include "muster/tune/schedule/median/step_percentiles.h"
#include "muster/tune/schedule/scheduler.h"
#include "muster/tune/schedule/score_text.h"

namespace muster::tune {
namespace {

constexpr Param kMedianParams[] = {
    param<&MedianOptions::rule>("rule", "ray (all trials' means) or optuna (complete trials)"),
    param<&MedianOptions::grace_period>("grace_period", "ray: no stop before; means begin here"),
    param<&MedianOptions::min_samples_required>(
        "min_samples_required", "ray: other trials as far as this one, or nobody is stopped"),
    param<&MedianOptions::hard_stop>("hard_stop",
                                     "ray: else trials pause, and go on when no new one comes"),
    param<&MedianOptions::percentile>("percentile", "optuna: the best so many percent go on"),
    param<&MedianOptions::n_startup_trials>("n_startup_trials",
                                            "optuna: complete trials, or nobody is stopped"),
    param<&MedianOptions::n_warmup_steps>("n_warmup_steps", "optuna: no stop before"),
    param<&MedianOptions::interval_steps>("interval_steps", "optuna: judged once in so many steps"),
    param<&MedianOptions::n_min_trials>("n_min_trials",
                                        "optuna: complete trials with a report at the step"),
    param<&MedianOptions::of>("of", kOfHelp)};

void median_requires(bool holds, std::string_view rule, std::string value) {
  if (holds) return;
  throw usage_error(
      {.refused = "scheduler median", .rule = std::string(rule), .value = std::move(value)});
}

/// An option of the other rule would do nothing.
void check_rule(const MedianOptions& o) {
  const MedianOptions d;
  const bool has_ray = o.grace_period != d.grace_period || o.hard_stop != d.hard_stop ||
                       o.min_samples_required != d.min_samples_required;
  const bool has_optuna = o.percentile != d.percentile ||
                          o.n_startup_trials != d.n_startup_trials ||
                          o.n_warmup_steps != d.n_warmup_steps ||
                          o.interval_steps != d.interval_steps || o.n_min_trials != d.n_min_trials;
  median_requires(
      o.rule == "ray" || o.rule == "optuna", "rule is ray or optuna", '"' + o.rule + '"');
  median_requires(o.rule == "ray" || !has_ray,
                  "grace_period, min_samples_required and hard_stop go with rule=ray",
                  spec_text("median", kMedianParams, o));
  median_requires(o.rule == "optuna" || !has_optuna,
                  "percentile, n_startup_trials, n_warmup_steps, interval_steps and n_min_trials "
                  "go with rule=optuna",
                  spec_text("median", kMedianParams, o));
}

void check_median(const MedianOptions& o) {
  check_rule(o);
  median_requires(o.min_samples_required >= 1,
                  "min_samples_required is at least 1",
                  concat(o.min_samples_required));
  median_requires(o.percentile >= 0 && o.percentile <= 100,
                  "percentile is between 0 and 100",
                  shortest(o.percentile));
  median_requires(o.n_startup_trials >= 0 && o.n_warmup_steps >= 0,
                  "n_startup_trials and n_warmup_steps are not negative",
                  concat(o.n_startup_trials, ", ", o.n_warmup_steps));
  median_requires(o.interval_steps >= 1 && o.n_min_trials >= 1,
                  "interval_steps and n_min_trials are at least 1",
                  concat(o.interval_steps, ", ", o.n_min_trials));
}

/// "stopped at 5: best 0.412 < cutoff 0.437 (median of 7)".
std::string stop_text(
    int64_t t, double best, double cutoff, const SchedulerContext& context, std::string_view of) {
  const std::string why = std::isfinite(best)
                              ? concat("best ", worse_than_text(best, cutoff, context.mode))
                              : concat("no ", context.metric, " is a number");
  return concat("stopped at ", t, ": ", why, " (", of, ')');
}

constexpr double kNoScore = -std::numeric_limits<double>::infinity();

class RayMedian final : public Scheduler {
 public:
  RayMedian(const SchedulerContext& context, const MedianOptions& options)
      : context_(context), options_(options), means_(options.grace_period) {}

  Decision on_report(int64_t number, int64_t t, double score) override {
    Progress& trial = trial_of(number);
    require_rising(number, trial.last_t, t);
    trial.last_t = t;
    if (trial.judged) return {};  // it was paused once, and runs to its end
    if (std::isfinite(score)) trial.best = std::max(trial.best, score);
    Decision decision;
    if (t >= options_.grace_period) decision = judge(trial, t);
    means_.add(trial.curve, t, score);
    return decision;
  }

  void on_pause(int64_t number) override {
    if (trials_.contains(number)) paused_.push_back(number);
  }

  void on_end(int64_t number, TrialState /*state*/) override {
    std::erase(paused_, number);
    trials_.erase(number);
  }

  bool pauses() const override { return !options_.hard_stop; }
  bool donors_may_be_over() const override { return false; }
  void no_more_trials() override { no_more_ = true; }

  void on_start(int64_t number, const Point& /*point*/) override {
    no_more_ = false;
    trial_of(number);
  }

  /// In the order in which they paused, as Ray.
  std::optional<Promotion> promote() override {
    if (!no_more_ || paused_.empty()) return std::nullopt;
    const int64_t number = paused_.front();
    paused_.pop_front();
    return Promotion{
        .number = number,
        .reason = concat("goes on, as no new trial comes: paused at ", trials_.at(number).last_t)};
  }

  std::string status() const override {
    return concat("median of all trials' means from ",
                  options_.grace_period,
                  " on: ",
                  stopped_,
                  options_.hard_stop ? " stopped" : " paused");
  }

 private:
  struct Progress {
    size_t curve = 0;
    int64_t last_t = std::numeric_limits<int64_t>::min();
    double best = kNoScore;
    bool judged = false;
  };

  Progress& trial_of(int64_t number) {
    const auto [trial, is_new] = trials_.try_emplace(number);
    if (is_new) trial->second.curve = means_.add_curve();
    return trial->second;
  }

  Decision judge(Progress& trial, int64_t t) {
    const auto others = means_.at(t);
    if (static_cast<int64_t>(others.n) < options_.min_samples_required ||
        !(trial.best < others.median))
      return {};
    ++stopped_;
    trial.judged = true;
    const bool pause = !options_.hard_stop && std::isfinite(trial.best);
    std::string why =
        stop_text(t, trial.best, others.median, context_, concat("median of ", others.n));
    if (pause) why.replace(0, std::string_view("stopped").size(), "paused");
    return {pause ? Action::kPause : Action::kStop, std::move(why)};
  }

  SchedulerContext context_;
  MedianOptions options_;
  RunningMeans means_;
  std::unordered_map<int64_t, Progress> trials_;
  std::deque<int64_t> paused_;
  bool no_more_ = false;
  int64_t stopped_ = 0;
};

class OptunaMedian final : public Scheduler {
 public:
  OptunaMedian(const SchedulerContext& context, const MedianOptions& options)
      : context_(context), options_(options), complete_(options.percentile) {}

  Decision on_report(int64_t number, int64_t t, double score) override {
    Progress& trial = trials_[number];
    const int64_t before = trial.reports.empty() ? kNone : trial.reports.back().first;
    require_rising(number, before, t);
    trial.reports.emplace_back(t, score);
    if (!std::isnan(score)) trial.best = std::max(trial.best, score), trial.any = true;
    return judge(trial, t, std::max<int64_t>(before, -1));
  }

  void on_end(int64_t number, TrialState state) override {
    const auto trial = trials_.find(number);
    if (trial == trials_.end()) return;
    if (state == TrialState::kComplete) complete_.add_complete(trial->second.reports);
    trials_.erase(trial);
  }

  bool donors_may_be_over() const override { return false; }

  std::string status() const override {
    return concat("median of complete trials, percentile ",
                  shortest(options_.percentile),
                  ": ",
                  complete_.complete(),
                  " complete, ",
                  stopped_,
                  " stopped");
  }

 private:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::min();
  struct Progress {
    StepPercentiles::Curve reports;
    double best = kNoScore;
    bool any = false;  // score that is not NaN
  };

  Decision judge(const Progress& trial, int64_t t, int64_t before) {
    const auto complete = static_cast<int64_t>(complete_.complete());
    if (complete == 0 || complete < options_.n_startup_trials || t < options_.n_warmup_steps ||
        !is_first_in_interval(t, before, options_.n_warmup_steps, options_.interval_steps))
      return {};
    if (!trial.any) {
      ++stopped_;
      return {Action::kStop, concat("stopped at ", t, ": no ", context_.metric, " is a number")};
    }
    const auto at = complete_.at(t);
    if (static_cast<int64_t>(at.n) < options_.n_min_trials || !(trial.best < at.score)) return {};
    ++stopped_;
    const std::string of =
        concat("percentile ", shortest(options_.percentile), " of ", at.n, " complete");
    return {Action::kStop, stop_text(t, trial.best, at.score, context_, of)};
  }

  SchedulerContext context_;
  MedianOptions options_;
  StepPercentiles complete_;
  std::unordered_map<int64_t, Progress> trials_;  // that are not over
  int64_t stopped_ = 0;
};

std::unique_ptr<Scheduler> make_median(const SchedulerContext& context, const ParamValues& params) {
  const auto options = resolve_params<MedianOptions>(kMedianParams, params, "scheduler median");
  check_median(options);
  if (options.rule == "optuna") return std::make_unique<OptunaMedian>(context, options);
  return std::make_unique<RayMedian>(context, options);
}

}  // namespace

std::string median(const MedianOptions& options) {
  check_median(options);
  return spec_text("median", kMedianParams, options);
}

extern constinit const SchedulerEntry median_entry{
    "median",
    "stops a trial whose best is below the median of others",
    kMedianParams,
    &make_median};

}  // namespace muster::tune
