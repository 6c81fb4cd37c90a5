// lr * gamma^(milestones reached). Source: torch.optim.lr_scheduler.MultiStepLR.
#include <algorithm>
#include <cmath>
#include <vector>

#include "muster/base/text.h"
#include "muster/optim/schedule.h"

namespace muster::optim {
namespace {

struct MultiStepOptions {
  std::string milestones;
  double gamma = 0.1;
  ScheduleTiming timing;
};

constexpr auto kMultiStepParams = with_timing<&MultiStepOptions::timing>(
    param<&MultiStepOptions::milestones>("milestones", "units at which it changes: 30+60+80"),
    param<&MultiStepOptions::gamma>("gamma", "factor of each change"));

/// "30+60+80" -> {30, 60, 80}; a milestone given twice counts twice, as in PyTorch.
std::vector<int64_t> parse_milestones(const std::string& text) {
  std::vector<int64_t> out;
  for (const std::string& part : split(text, '+')) {
    const std::optional<int64_t> milestone = to_int(trim(part));
    if (!milestone || *milestone < 1 || (!out.empty() && *milestone < out.back())) {
      throw usage_error({.refused = "lr schedule multi_step parameter \"milestones\"",
                         .rule = "rising whole numbers above 0, joined by +",
                         .value = '"' + text + '"',
                         .hint = "for instance multi_step:milestones=30+60+80"});
    }
    out.push_back(*milestone);
  }
  return out;
}

class MultiStep final : public Schedule {
 public:
  MultiStep(const ScheduleContext& context, const MultiStepOptions& options)
      : Schedule(options.timing, context, "lr schedule multi_step"),
        gamma_(options.gamma),
        milestones_(parse_milestones(options.milestones)) {}

 protected:
  ScheduleValue value(int64_t t) const override {
    const auto reached =
        std::upper_bound(milestones_.begin(), milestones_.end(), t) - milestones_.begin();
    return {.lr = context().lr * std::pow(gamma_, static_cast<double>(reached))};
  }

 private:
  double gamma_;
  std::vector<int64_t> milestones_;
};

std::unique_ptr<Schedule> make_multi_step(const ScheduleContext& context,
                                          const ParamValues& params) {
  const auto options =
      resolve_params<MultiStepOptions>(kMultiStepParams, params, "lr schedule multi_step");
  if (!(options.gamma > 0)) {
    throw usage_error({.refused = "lr schedule multi_step parameter \"gamma\"",
                       .rule = "it is above 0",
                       .value = shortest(options.gamma)});
  }
  return std::make_unique<MultiStep>(context, options);
}

}  // namespace

extern constinit const ScheduleEntry multi_step_entry{
    "multi_step", "times gamma at each milestone", kMultiStepParams, &make_multi_step};

}  // namespace muster::optim
