// What a unit of a model takes of a device, whatever its batch.
#pragma once

namespace muster::train {

/// Bytes.
struct UnitNeeds {
  double held = 0;              ///< its weights with buffers, and a gradient of each weight
  double state = 0;             ///< the optimizer's
  double largest_gradient = 0;  ///< of one of its weights
};

}  // namespace muster::train
