#include "muster/train/replicas/split_shards.h"

#include <utility>

#include "muster/base/text.h"
#include "muster/train/replicas/ddp_strategy.h"

namespace muster::train::detail {
namespace {

/// In stage 1 gradients are whole, and nothing is collective between the optimizer's steps.
parallel::ZeroCore make_core(std::shared_ptr<torch::nn::Module> module,
                             const distributed::ProcessGroup& group,
                             parallel::ZeroOptions options) {
  options.stage = 1;
  return {parallel::detail::shardable_parameters_of(module),
          parallel::detail::named_buffers_of(module),
          group,
          options};
}

}  // namespace

SplitShards::SplitShards(StrategyRequest request,
                         const OptimizerMaker& make,
                         double lr,
                         const parallel::ZeroOptions& options)
    : Strategy(std::move(request)),
      stage_(options.stage),
      average_(*module(), group()),
      core_(make_core(module(), group(), options)),
      optimizer_(core_, make, lr) {}

std::string SplitShards::line() const {
  if (group().world_size() == 1) return "";
  return concat(kAveragesAfterwards,
                stage_ == 1 ? "" : "; until then they are whole on each rank, as with zero1");
}

}  // namespace muster::train::detail
