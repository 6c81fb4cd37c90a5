// Which dimensions are modelled together.
#pragma once

#include <cstddef>
#include <vector>

#include "muster/tune/space/space.h"

namespace muster::tune {

/// How dimensions are put together. kJoint: those that every finished trial had together, each
/// other one for itself. kGroups: those that always come and go together, as the finished trials
/// show it, are a group. kApart: each for itself.
enum class Together { kJoint, kGroups, kApart };

/// A partition of the dimensions that there is something to choose in; it follows the finished
/// trials. Source: optuna 5.0.0, search_space/intersection.py and group_decomposed.py.
class Subspaces {
 public:
  /// `is_open`: per dimension, whether it has more than one value.
  Subspaces(const std::vector<bool>& is_open, Together together);

  /// A finished trial had these dimensions (numbers, or NaN). True if the partition changed.
  bool add(const Point& point);

  /// Each sorted; first those of several trials, then single dimensions.
  const std::vector<std::vector<size_t>>& all() const { return all_; }

 private:
  using Dimensions = std::vector<size_t>;

  void add_to_groups(Dimensions seen);
  std::vector<Dimensions> partition() const;

  Together together_;
  Dimensions open_;
  bool has_any_ = false;
  std::vector<Dimensions> groups_;  // of kJoint: one, what all trials had
  std::vector<Dimensions> all_;
};

}  // namespace muster::tune
