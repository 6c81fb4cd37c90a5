// ASHA that pauses and promotes: see schedulers/asha.cpp.
#include <limits>
#include <unordered_map>

#include "muster/tune/schedule/asha/asha_types.h"
#include "muster/tune/schedule/asha/promotion_rung.h"

namespace muster::tune {
namespace {

class Promotion final : public Halving<PromotionRung> {
 public:
  Promotion(const SchedulerContext& context, const AshaOptions& options, const Ladders& ladders)
      : Halving(context, options, ladders, options.reduction_factor) {}

  void on_start(int64_t number, const Point& /*point*/) override { progress_of(number); }

  Decision on_report(int64_t number, int64_t t, double score) override {
    Progress& trial = progress_of(number);
    require_rising(number, trial.last_t, t);
    trial.last_t = t;
    auto& rungs = brackets_[trial.bracket];
    const auto reached = [&](size_t k) {
      return k < rungs.size() && static_cast<double>(t) >= rungs[k].milestone;
    };
    if (is_last(t)) return options_.stop_last_trials ? reached_max_t() : Decision{};
    if (!reached(trial.next)) return {};
    leave(trial);
    while (reached(trial.next)) ++trial.next;
    const bool finite = std::isfinite(score);
    PromotionRung& rung = rungs[trial.next - 1].members;
    trial.place = rung.add(number, finite ? score : -std::numeric_limits<double>::infinity());
    const double milestone = rungs[trial.next - 1].milestone;
    if (!finite) return not_finite(milestone, score);
    return {Action::kPause,
            concat("paused at rung ",
                   shortest(milestone),
                   ": ",
                   metric_text(score, context_.mode),
                   " (n=",
                   rung.size(),
                   ")")};
  }

  void on_pause(int64_t number) override {
    const auto trial = trials_.find(number);
    if (trial != trials_.end() && trial->second.next > 0)
      rung_of(trial->second).members.wait(trial->second.place);
  }

  void on_end(int64_t number, TrialState /*state*/) override {
    const auto trial = trials_.find(number);
    if (trial == trials_.end()) return;
    leave(trial->second);
    trials_.erase(trial);
  }

  bool pauses() const override { return true; }

  std::optional<Scheduler::Promotion> promote() override {
    for (size_t from_top = 1; from_top <= rungs_per_bracket_.front(); ++from_top) {
      for (auto& rungs : brackets_) {
        if (from_top > rungs.size()) continue;
        const size_t k = rungs.size() - from_top;
        if (const auto number = rungs[k].members.promote_best())
          return Scheduler::Promotion{*number, promoted_text(rungs, k)};
      }
    }
    return std::nullopt;
  }

  std::string status() const override {
    return status_of("asha promotion", [](const PromotionRung& rung) {
      return concat(", best ", rung.top(), " go on");
    });
  }

 private:
  struct Progress {
    int64_t last_t = std::numeric_limits<int64_t>::min();
    uint32_t bracket = 0;
    uint32_t next = 0;   // the rung that it has not reached yet
    uint32_t place = 0;  // in rung next - 1
  };

  Progress& progress_of(int64_t number) {
    const auto [trial, is_new] = trials_.try_emplace(number);
    if (is_new) trial->second.bracket = bracket_of(number);
    return trial->second;
  }

  Rung<PromotionRung>& rung_of(const Progress& trial) {
    return brackets_[trial.bracket][trial.next - 1];
  }
  void leave(const Progress& trial) {
    if (trial.next > 0) rung_of(trial).members.leave(trial.place);
  }

  std::string promoted_text(const std::vector<Rung<PromotionRung>>& rungs, size_t k) const {
    const std::string to = k + 1 < rungs.size() ? "rung " + shortest(rungs[k + 1].milestone)
                                                : concat("max_t ", options_.max_t);
    return concat("promoted to ",
                  to,
                  ": in the best ",
                  rungs[k].members.top(),
                  " of ",
                  rungs[k].members.size(),
                  " at rung ",
                  shortest(rungs[k].milestone));
  }

  std::unordered_map<int64_t, Progress> trials_;
};

}  // namespace

std::unique_ptr<Scheduler> make_asha_promotion(const SchedulerContext& context,
                                               const AshaOptions& options,
                                               const Ladders& ladders) {
  return std::make_unique<Promotion>(context, options, ladders);
}

}  // namespace muster::tune
