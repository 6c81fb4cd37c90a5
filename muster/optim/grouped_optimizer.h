// Parameter groups: one optimizer, with a rate and a weight decay of its own for some parameters.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "muster/optim/optimizer.h"

namespace muster::optim {

struct OptimizerGroup {
  tensor::NamedTensorList parameters;
  double lr_factor = 1;                ///< of the optimizer's rate, whatever a schedule makes of it
  std::optional<double> weight_decay;  ///< the optimizer's own if not said
};

/// `entry`'s optimizer over all groups, as torch.optim with param_groups: bit for bit what an
/// optimizer of its own over each group does. set_lr() and set_momentum() are for all groups; its
/// state is that of the optimizer without groups. Throws a usage error for a factor that is negative
/// or not finite, a weight decay where the optimizer has none, and as entry.make().
std::unique_ptr<Optimizer> make_grouped(const OptimizerEntry& entry,
                                        std::vector<OptimizerGroup> groups,
                                        double lr,
                                        const ParamValues& params);

}  // namespace muster::optim
