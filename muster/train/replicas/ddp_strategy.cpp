#include "muster/train/replicas/ddp_strategy.h"

#include <utility>

#include "muster/base/text.h"
#include "muster/train/plan/fit_plan.h"

namespace muster::train::detail {

parallel::DdpOptions ddp_options(const ParamValues& params, std::string_view owner) {
  const auto options = resolve_params<DdpStrategyOptions>(kDdpParams, params, owner);
  // Views: the loop drops gradients itself, and a copy of all of them would be held besides.
  return {.bucket_bytes_cap = bucket_bytes_of(options.bucket_mb, owner),
          .gradient_as_bucket_view = true};
}

DdpStrategy::DdpStrategy(StrategyRequest request,
                         std::unique_ptr<optim::Optimizer> optimizer,
                         parallel::DdpOptions options)
    : Strategy(std::move(request)),
      ddp_(module(), group(), std::move(options)),
      optimizer_(std::move(optimizer)) {}

void DdpStrategy::accumulate(const std::function<void()>& pass) {
  const auto pause = ddp_.no_sync();
  pass();
}

// DDP decides its buckets in the first backward of a process, and a ring sums each place of a
// bucket in another order of ranks. So a resumed process makes one backward whose gradients are
// thrown away, and its first real step sums as the unbroken run does.
bool DdpStrategy::wants_rehearsal() const {
  return group().world_size() > 2;  // two ranks sum the same in any order
}

std::unique_ptr<Strategy> make_ddp(StrategyRequest request,
                                   const ParamValues& params,
                                   std::string_view owner) {
  auto optimizer = make_optimizer(request);
  return std::make_unique<DdpStrategy>(
      std::move(request), std::move(optimizer), ddp_options(params, owner));
}

}  // namespace muster::train::detail
