// lr * gamma^t. Source: torch.optim.lr_scheduler.ExponentialLR.
#include <cmath>

#include "muster/base/text.h"
#include "muster/optim/schedule.h"

namespace muster::optim {
namespace {

struct ExponentialOptions {
  double gamma = 0.95;
  ScheduleTiming timing;
};

constexpr auto kExponentialParams = with_timing<&ExponentialOptions::timing>(
    param<&ExponentialOptions::gamma>("gamma", "factor of each unit"));

class Exponential final : public Schedule {
 public:
  Exponential(const ScheduleContext& context, const ExponentialOptions& options)
      : Schedule(options.timing, context, "lr schedule exponential"), gamma_(options.gamma) {}

 protected:
  ScheduleValue value(int64_t t) const override {
    return {.lr = context().lr * std::pow(gamma_, static_cast<double>(t))};
  }

 private:
  double gamma_;
};

std::unique_ptr<Schedule> make_exponential(const ScheduleContext& context,
                                           const ParamValues& params) {
  const auto options =
      resolve_params<ExponentialOptions>(kExponentialParams, params, "lr schedule exponential");
  if (!(options.gamma > 0 && options.gamma <= 1)) {
    throw usage_error({.refused = "lr schedule exponential parameter \"gamma\"",
                       .rule = "it is in (0, 1]",
                       .value = shortest(options.gamma)});
  }
  return std::make_unique<Exponential>(context, options);
}

}  // namespace

extern constinit const ScheduleEntry exponential_entry{
    "exponential", "times gamma after every unit", kExponentialParams, &make_exponential};

}  // namespace muster::optim
