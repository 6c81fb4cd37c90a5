#include "muster/tune/search/gp/sobol_points.h"

#include <algorithm>
#include <cmath>

#include "muster/tune/search/normal.h"
#include "muster/tune/space/unit_axis.h"

namespace muster::tune {
namespace {

double from_share(const Distribution& distribution, double share) {
  if (!std::holds_alternative<NormalDistribution>(distribution))
    return from_unit(distribution, share);
  // Places of a normal distribution are linear, from mean - 3 sd to mean + 3 sd.
  const double z = inverse_normal_cdf(std::clamp(share, 0x1p-40, 1 - 0x1p-40));
  return from_unit(distribution, (z + 3) / 6);
}

}  // namespace

SobolPoints::SobolPoints(const Space& space, std::optional<uint64_t> seed)
    : space_(space), sequence_(count(space), seed) {
  for (size_t d = 0; d < space.dimensions().size(); ++d) {
    if (!space.dimensions()[d].grid) dimensions_.push_back(d);
  }
}

size_t SobolPoints::count(const Space& space) {
  return static_cast<size_t>(
      std::ranges::count(space.dimensions(), false, [](const Dimension& d) { return d.grid; }));
}

Point SobolPoints::fill(uint64_t index, Point point) const {
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    const size_t d = dimensions_[i];
    if (std::isnan(point[d]))
      point[d] = from_share(space_.dimensions()[d].distribution, sequence_.at(index, i));
  }
  return point;
}

}  // namespace muster::tune
