// Population based training: all trials are one population; at intervals the worst copy the
// checkpoint and the parameters of one of the best, change them, and train on from there. Sources:
// Jaderberg et al. 2017 ("Population Based Training of Neural Networks"); ray 2.60,
// PopulationBasedTraining.
//
// The population is num_samples trials. With fewer slots than trials they take turns: at its interval
// a trial that others wait for pauses, and the least trained goes on. A trial is known to wait for
// none once all have started and none is paused; so with a slot for each, the first one that comes
// to its interval pauses for a moment, to learn that no more trials come.
//
// Where Ray is left on purpose:
// - Parameters stay in their domains and on their steps, and move by one step at least.
// - A choice moves to a neighbour in its list, whatever its values are; Ray multiplies tune.choice.
// - A score that is not finite is the worst, so that its trial copies another; Ray leaves it alone.
// - Which checkpoint of the donor is copied, and which parameters, is seen when the trial goes on: the
//   newest. A donor that is over by then is replaced.
// - Randomness is a function of the seed, the trial and its count of copies, so that a study replays.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "muster/base/text.h"
#include "muster/tune/schedule/pbt/explorer.h"
#include "muster/tune/schedule/pbt/pbt_options.h"
#include "muster/tune/schedule/pbt/population.h"
#include "muster/tune/schedule/scheduler.h"
#include "muster/tune/schedule/score_text.h"

namespace muster::tune {
namespace {

constexpr Param kPbtParams[] = {
    param<&PbtOptions::perturbation_interval>("perturbation_interval",
                                              "a trial is judged each time so much came"),
    param<&PbtOptions::burn_in_period>("burn_in_period", "nobody is judged before"),
    param<&PbtOptions::quantile_fraction>("quantile_fraction",
                                          "so many of the worst copy so many of the best"),
    param<&PbtOptions::resample_probability>("resample_probability",
                                             "that a parameter is drawn anew, not moved"),
    param<&PbtOptions::perturb_up>("perturb_up", "a number is multiplied by this"),
    param<&PbtOptions::perturb_down>("perturb_down", "or by this"),
    param<&PbtOptions::synch>("synch", "all trials wait for each other at each interval"),
    param<&PbtOptions::mutate>(
        "mutate", "parameters to change, blanks between; else all drawn from real numbers")};

void pbt_requires(bool holds, std::string_view rule, std::string value) {
  if (holds) return;
  throw usage_error(
      {.refused = "scheduler pbt", .rule = std::string(rule), .value = std::move(value)});
}

void check_pbt(const PbtOptions& o) {
  pbt_requires(o.perturbation_interval >= 1,
               "perturbation_interval is at least 1",
               concat(o.perturbation_interval));
  pbt_requires(o.burn_in_period >= 0, "burn_in_period is not negative", concat(o.burn_in_period));
  pbt_requires(o.quantile_fraction >= 0 && o.quantile_fraction <= 0.5,
               "quantile_fraction is between 0 and 0.5",
               shortest(o.quantile_fraction));
  pbt_requires(o.resample_probability >= 0 && o.resample_probability <= 1,
               "resample_probability is between 0 and 1",
               shortest(o.resample_probability));
  pbt_requires(o.perturb_up > 1 && std::isfinite(o.perturb_up),
               "perturb_up is above 1",
               shortest(o.perturb_up));
  pbt_requires(o.perturb_down > 0 && o.perturb_down < 1,
               "perturb_down is between 0 and 1",
               shortest(o.perturb_down));
}

class Pbt final : public Scheduler {
 public:
  Pbt(const SchedulerContext& context, const PbtOptions& options)
      : context_(context),
        options_(options),
        explorer_(context.space, options, context.seed),
        next_sync_(std::max(options.perturbation_interval, options.burn_in_period)) {}

  void on_start(int64_t number, const Point& point) override {
    no_more_ = false;
    members_[number].point = point;
  }

  Decision on_report(int64_t number, int64_t t, double score) override {
    Member& trial = members_[number];
    require_rising(number, trial.last_t, t);
    trial.last_t = t;
    if (t < options_.burn_in_period || t - trial.perturbed_t < options_.perturbation_interval)
      return {};
    trial.score = score;
    trial.trained_t = last_arrival_ = t;
    if (options_.synch) return {Action::kPause, concat("paused at ", t, ": all are waited for")};
    return perturb(number, trial);
  }

  void on_checkpoint(int64_t number, int64_t t) override {
    const auto trial = members_.find(number);
    if (trial != members_.end()) trial->second.has_checkpoint = t != 0;
  }

  void on_pause(int64_t number) override {
    const auto trial = members_.find(number);
    if (trial == members_.end()) return;
    set_paused(trial->second, true);
    sync_if_due();
  }

  void on_end(int64_t number, TrialState /*state*/) override {
    const auto trial = members_.find(number);
    if (trial == members_.end()) return;
    set_paused(trial->second, false);
    members_.erase(trial);
    sync_if_due();
  }

  bool pauses() const override { return true; }
  bool donors_may_be_over() const override { return false; }

  void no_more_trials() override {
    no_more_ = true;
    sync_if_due();
  }

  /// New trials are the least trained, so that they come first.
  std::optional<Promotion> promote() override {
    if (!no_more_) return std::nullopt;
    auto least = members_.end();
    for (auto at = members_.begin(); at != members_.end(); ++at) {
      const Member& member = at->second;
      if (!member.paused || (options_.synch && member.trained_t >= next_sync_)) continue;
      if (least == members_.end() || member.trained_t < least->second.trained_t) least = at;
    }
    if (least == members_.end()) return std::nullopt;
    set_paused(least->second, false);
    return order(least->first, least->second);
  }

  void on_resume(int64_t number, const Point& point) override {
    const auto trial = members_.find(number);
    if (trial == members_.end()) return;
    trial->second.point = point;
  }

  std::string status() const override {
    std::string text = concat("pbt: ",
                              members_.size(),
                              " trials, interval ",
                              options_.perturbation_interval,
                              ", ",
                              copies_,
                              " copied");
    if (paused_ > 0) text += concat(", ", paused_, " wait");
    const auto best = std::ranges::max_element(members_, {}, [](const auto& member) {
      return std::isfinite(member.second.score) ? member.second.score : kNoScore;
    });
    if (best != members_.end() && std::isfinite(best->second.score)) {
      text += concat("; best ",
                     metric_text(best->second.score, context_.mode),
                     " at ",
                     best->second.trained_t);
    }
    return text;
  }

 private:
  static constexpr double kNoScore = -std::numeric_limits<double>::infinity();

  struct Member {
    Point point;
    int64_t last_t = std::numeric_limits<int64_t>::min();
    double score = kNoScore;  // when it was judged last
    int64_t trained_t = 0;    // then; a copy has its donor's
    int64_t perturbed_t = 0;
    bool has_checkpoint = false;
    bool paused = false;
    int64_t donor = -1;  // that it is to copy; -1: none
    int64_t copies = 0;  // that it made
  };

  void set_paused(Member& trial, bool paused) {
    paused_ += (paused ? 1 : 0) - (trial.paused ? 1 : 0);
    trial.paused = paused;
  }

  Quantiles population_quantiles() const {
    std::vector<Scored> trials;
    for (const auto& [number, member] : members_) {
      if (member.trained_t > 0) trials.push_back({number, member.score});
    }
    return quantiles(std::move(trials), options_.quantile_fraction);
  }

  Decision perturb(int64_t number, Member& trial) {
    trial.perturbed_t = trial.trained_t;
    trial.donor = -1;
    const Quantiles ends = population_quantiles();
    if (std::ranges::find(ends.lower, number) != ends.lower.end() &&
        choose_donor(number, trial, ends.upper)) {
      const Member& donor = members_.at(trial.donor);
      return {Action::kPause,
              concat("paused at ",
                     trial.last_t,
                     " to copy trial ",
                     trial.donor,
                     ": ",
                     compared(trial.score, donor.score))};
    }
    if (no_more_ && paused_ == 0) return {};
    return {Action::kPause, concat("paused at ", trial.last_t, ": others wait")};
  }

  std::string compared(double score, double donors) const {
    return concat(
        metric_text(score, context_.mode), " beside ", metric_text(donors, context_.mode));
  }

  /// Draws one of the best for the trial. False: it has nothing to give.
  bool choose_donor(int64_t number, Member& trial, const std::vector<int64_t>& upper) {
    if (upper.empty()) return false;
    const int64_t donor = upper[explorer_.draw_donor(upper.size(), number, trial.copies)];
    const Member& from = members_.at(donor);
    if (!from.has_checkpoint || donor == number) return false;
    trial.donor = donor;
    trial.perturbed_t = from.perturbed_t;
    trial.trained_t = from.trained_t;
    return true;
  }

  /// Synchronous: all that are alive wait, and no more come.
  void sync_if_due() {
    if (!options_.synch || !no_more_ || members_.empty()) return;
    int64_t most = 0, least = std::numeric_limits<int64_t>::max();
    for (const auto& [number, member] : members_) {
      if (!member.paused || member.trained_t < next_sync_) return;
    }
    for (auto& [number, member] : members_) member.perturbed_t = last_arrival_;
    const Quantiles ends = population_quantiles();
    for (const int64_t number : ends.lower) choose_donor(number, members_.at(number), ends.upper);
    for (const auto& [number, member] : members_) {
      most = std::max(most, member.trained_t);
      least = std::min(least, member.trained_t);
    }
    next_sync_ = std::max(next_sync_ + options_.perturbation_interval, most);
    if (least == next_sync_) ++next_sync_;  // or nobody would go on
  }

  Promotion order(int64_t number, Member& trial) {
    if (trial.donor >= 0 && !members_.contains(trial.donor)) {
      trial.donor = -1;
      choose_donor(number, trial, population_quantiles().upper);
    }
    const int64_t donor = std::exchange(trial.donor, -1);
    if (donor < 0)
      return {.number = number, .reason = concat("goes on: its turn at ", trial.trained_t)};
    const auto explored = explorer_.explore(members_.at(donor).point, number, trial.copies++);
    ++copies_;
    return {.number = number,
            .reason = concat("goes on as trial ",
                             donor,
                             ": ",
                             explored.text.empty() ? "nothing changed" : explored.text),
            .donor = donor,
            .point = explored.point};
  }

  SchedulerContext context_;
  PbtOptions options_;
  Explorer explorer_;
  int64_t next_sync_;                  // who has come to it waits for the others
  int64_t last_arrival_ = 0;           // t of the trial that was judged last
  std::map<int64_t, Member> members_;  // that are not over
  bool no_more_ = false;
  int64_t paused_ = 0;
  int64_t copies_ = 0;
};

std::unique_ptr<Scheduler> make_pbt(const SchedulerContext& context, const ParamValues& params) {
  const auto options = resolve_params<PbtOptions>(kPbtParams, params, "scheduler pbt");
  check_pbt(options);
  return std::make_unique<Pbt>(context, options);
}

}  // namespace

std::string pbt(const PbtOptions& options) {
  check_pbt(options);
  return spec_text("pbt", kPbtParams, options);
}

extern constinit const SchedulerEntry pbt_entry{
    "pbt", "population based training: the worst copy the best, and change", kPbtParams, &make_pbt};

}  // namespace muster::tune
