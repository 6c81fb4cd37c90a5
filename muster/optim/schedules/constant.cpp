// The base learning rate throughout; with a warm-up, after it. Source: torch.optim's behaviour
// without a scheduler, LinearLR with total_iters = warmup.
#include "muster/optim/schedule.h"

namespace muster::optim {
namespace {

struct ConstantOptions {
  ScheduleTiming timing;
};

constexpr auto kConstantParams = with_timing<&ConstantOptions::timing>();

class Constant final : public Schedule {
 public:
  Constant(const ScheduleContext& context, const ConstantOptions& options)
      : Schedule(options.timing, context, "lr schedule constant") {}

 protected:
  ScheduleValue value(int64_t) const override { return {.lr = context().lr}; }
};

std::unique_ptr<Schedule> make_constant(const ScheduleContext& context, const ParamValues& params) {
  return std::make_unique<Constant>(
      context, resolve_params<ConstantOptions>(kConstantParams, params, "lr schedule constant"));
}

}  // namespace

extern constinit const ScheduleEntry constant_entry{
    "constant", "the same rate throughout", kConstantParams, &make_constant};

}  // namespace muster::optim
