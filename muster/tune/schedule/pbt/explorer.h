// What a trial goes on with that copies another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "muster/tune/schedule/pbt/pbt_options.h"
#include "muster/tune/space/space.h"

namespace muster::tune {

/// Draws donors and points, as functions of the seed, the trial and how many copies it made before.
class Explorer {
 public:
  /// Throws a usage error if `mutate` names what the space does not have, or nothing that varies.
  Explorer(Space space, const PbtOptions& options, uint64_t seed);

  /// An index below `count`.
  size_t draw_donor(size_t count, int64_t trial, int64_t copies) const;

  struct Explored {
    Point point;
    std::string text;  ///< "lr 0.01 -> 0.012, batch_size 8 -> 16 (drawn)"
  };
  /// The donor's point with its parameters changed, each by itself.
  Explored explore(const Point& donor, int64_t trial, int64_t copies) const;

 private:
  struct Chances {
    double first, second;  // in [0, 1)
  };
  Chances chances(int64_t trial, int64_t copies, size_t place) const;
  void choose_dimensions();
  std::string change_text(size_t dimension, double from, double to, bool is_drawn) const;

  Space space_;
  PbtOptions options_;
  uint64_t seed_;
  std::vector<size_t> dimensions_;  // that are changed
};

}  // namespace muster::tune
