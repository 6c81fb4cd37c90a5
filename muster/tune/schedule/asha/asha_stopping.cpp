// ASHA that stops: see schedulers/asha.cpp.
#include <bit>
#include <limits>
#include <unordered_map>

#include "muster/tune/schedule/asha/asha_types.h"
#include "muster/tune/schedule/running_quantile.h"

namespace muster::tune {
namespace {

constexpr size_t kWordBits = 64;

/// The scores at a rung.
class Recorded {
 public:
  explicit Recorded(double share) : finite_(share) {}

  void add(double score) {
    any_ = true;
    if (!std::isnan(score)) finite_.add(score);
  }
  bool any() const { return any_; }
  /// NaN stops nobody: all scores were NaN, or the quantile is next to an infinity.
  double cutoff() const { return finite_.value(); }
  size_t size() const { return finite_.size(); }

 private:
  RunningQuantile finite_;
  bool any_ = false;
};

class Stopping final : public Halving<Recorded> {
 public:
  Stopping(const SchedulerContext& context, const AshaOptions& options, const Ladders& ladders)
      // Ray hands this to numpy as a percentage, which rounds twice.
      : Halving(context, options, ladders, (1 - 1 / options.reduction_factor) * 100 / 100) {}

  void on_start(int64_t number, const Point& /*point*/) override { progress_of(number); }

  Decision on_report(int64_t number, int64_t t, double score) override {
    Progress& trial = progress_of(number);
    require_rising(number, trial.last_t, t);
    trial.last_t = t;
    trial.last_score = score;
    if (is_last(t) && options_.stop_last_trials) return reached_max_t();
    return options_.ray_compat ? ray_rule(trial) : rule(trial);
  }

  void on_end(int64_t number, TrialState state) override {
    const auto trial = trials_.find(number);
    if (trial == trials_.end()) return;
    const bool reported = trial->second.last_t != kNever;
    if (options_.ray_compat && reported && state != TrialState::kFailed) ray_rule(trial->second);
    trials_.erase(trial);
  }

  std::string status() const override {
    return status_of("asha", [&](const Recorded& recorded) {
      const double cutoff = recorded.cutoff();
      return std::isfinite(cutoff) ? ", cutoff " + metric_text(cutoff, context_.mode)
                                   : std::string();
    });
  }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::min();

  struct Progress {
    uint64_t passed = 0;  // bit k: rung k of its bracket
    int64_t last_t = kNever;
    double last_score = 0;
    uint32_t bracket = 0;
  };

  Progress& progress_of(int64_t number) {
    const auto [trial, is_new] = trials_.try_emplace(number);
    if (is_new) trial->second.bracket = bracket_of(number);
    return trial->second;
  }

  Decision rule(Progress& trial) {
    auto& rungs = brackets_[trial.bracket];
    const auto t = static_cast<double>(trial.last_t);
    auto k = static_cast<size_t>(std::bit_width(trial.passed));
    if (k >= rungs.size() || t < rungs[k].milestone) return {};
    while (k + 1 < rungs.size() && t >= rungs[k + 1].milestone) ++k;
    trial.passed = ~uint64_t{0} >> (kWordBits - 1 - k);
    if (std::isfinite(trial.last_score)) return judge(rungs[k], trial.last_score);
    rungs[k].members.add(-std::numeric_limits<double>::infinity());
    return not_finite(rungs[k].milestone, trial.last_score);
  }

  /// ray 2.60, _Bracket.on_result, where rungs are tried from the top.
  Decision ray_rule(Progress& trial) {
    auto& rungs = brackets_[trial.bracket];
    for (size_t k = rungs.size(); k-- > 0;) {
      if (static_cast<double>(trial.last_t) < rungs[k].milestone) continue;
      const uint64_t bit = uint64_t{1} << k;
      if ((trial.passed & bit) == 0) {
        trial.passed |= bit;
        return judge(rungs[k], trial.last_score);
      }
      if (!options_.stop_last_trials) break;
    }
    return {};
  }

  Decision judge(Rung<Recorded>& rung, double score) {
    const double cutoff = rung.members.cutoff();
    const bool is_worse = rung.members.any() && score < cutoff;
    const size_t n = rung.members.size();
    rung.members.add(score);
    if (!is_worse) return {};
    return {Action::kStop,
            concat("stopped at rung ",
                   shortest(rung.milestone),
                   ": ",
                   worse_than_text(score, cutoff, context_.mode),
                   " (n=",
                   n,
                   ")")};
  }

  std::unordered_map<int64_t, Progress> trials_;
};

}  // namespace

std::unique_ptr<Scheduler> make_asha_stopping(const SchedulerContext& context,
                                              const AshaOptions& options,
                                              const Ladders& ladders) {
  return std::make_unique<Stopping>(context, options, ladders);
}

}  // namespace muster::tune
