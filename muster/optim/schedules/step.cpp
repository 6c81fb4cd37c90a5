// lr * gamma^floor(t / step_size). Source: torch.optim.lr_scheduler.StepLR.
#include <cmath>

#include "muster/base/text.h"
#include "muster/optim/schedule.h"

namespace muster::optim {
namespace {

struct StepOptions {
  int64_t step_size = 30;
  double gamma = 0.1;
  ScheduleTiming timing;
};

constexpr auto kStepParams = with_timing<&StepOptions::timing>(
    param<&StepOptions::step_size>("step_size", "units between two changes"),
    param<&StepOptions::gamma>("gamma", "factor of each change"));

class Step final : public Schedule {
 public:
  Step(const ScheduleContext& context, const StepOptions& options)
      : Schedule(options.timing, context, "lr schedule step"), options_(options) {}

 protected:
  ScheduleValue value(int64_t t) const override {
    return {.lr = context().lr *
                  std::pow(options_.gamma, static_cast<double>(t / options_.step_size))};
  }

 private:
  StepOptions options_;
};

std::unique_ptr<Schedule> make_step(const ScheduleContext& context, const ParamValues& params) {
  const auto options = resolve_params<StepOptions>(kStepParams, params, "lr schedule step");
  if (options.step_size < 1 || !(options.gamma > 0)) {
    throw usage_error({.refused = "lr schedule step",
                       .rule = "step_size is at least 1 and gamma above 0",
                       .value = concat("step_size=", options.step_size, ",gamma=", options.gamma)});
  }
  return std::make_unique<Step>(context, options);
}

}  // namespace

extern constinit const ScheduleEntry step_entry{
    "step", "times gamma every step_size units", kStepParams, &make_step};

}  // namespace muster::optim
