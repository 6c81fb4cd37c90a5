// Half a cosine from lr down to eta_min. Source: Loshchilov & Hutter 2017 ("SGDR"), equation 5,
// without restarts; torch.optim.lr_scheduler.CosineAnnealingLR, which rises again after t_max.
#include <cmath>
#include <numbers>

#include "muster/base/text.h"
#include "muster/optim/schedule.h"

namespace muster::optim {
namespace {

struct CosineOptions {
  int64_t t_max = 0;
  double eta_min = 0;
  ScheduleTiming timing;
};

constexpr auto kCosineParams = with_timing<&CosineOptions::timing>(
    param<&CosineOptions::t_max>("t_max", "units until eta_min; 0: all of the run"),
    param<&CosineOptions::eta_min>("eta_min", "rate at the end"));

class Cosine final : public Schedule {
 public:
  Cosine(const ScheduleContext& context, const CosineOptions& options)
      : Schedule(options.timing, context, "lr schedule cosine"), options_(options) {
    if (options_.t_max == 0) options_.t_max = units();
  }

 protected:
  ScheduleValue value(int64_t t) const override {
    const double angle =
        std::numbers::pi * static_cast<double>(t) / static_cast<double>(options_.t_max);
    return {.lr = options_.eta_min + (context().lr - options_.eta_min) * (1 + std::cos(angle)) / 2};
  }

 private:
  CosineOptions options_;
};

std::unique_ptr<Schedule> make_cosine(const ScheduleContext& context, const ParamValues& params) {
  const auto options = resolve_params<CosineOptions>(kCosineParams, params, "lr schedule cosine");
  if (options.t_max < 0 || !(options.eta_min >= 0)) {
    throw usage_error({.refused = "lr schedule cosine",
                       .rule = "t_max and eta_min are not negative",
                       .value = concat("t_max=", options.t_max, ",eta_min=", options.eta_min)});
  }
  return std::make_unique<Cosine>(context, options);
}

}  // namespace

extern constinit const ScheduleEntry cosine_entry{
    "cosine", "half a cosine down to eta_min", kCosineParams, &make_cosine};

}  // namespace muster::optim
