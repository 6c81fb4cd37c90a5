#include "muster/tune/space/grid.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/space/distribution.h"

namespace muster::tune {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 53;
constexpr size_t kMaxValues = 1'000'000;  // of one dimension: they are listed

std::vector<double> numbers_at(const Space& space, const Dimension& dimension) {
  if (auto numbers = numbers_of(dimension.distribution, kMaxValues)) return *std::move(numbers);
  const Parameter& parameter = space.parameters()[dimension.parameter];
  throw usage_error({.refused = concat("a grid over parameter \"", parameter.name, '"'),
                     .rule = concat("it has at most ", kMaxValues, " values"),
                     .value = parameter.domain.text(),
                     .hint =
                         "give a step (quniform, qloguniform, qrandint), name the values (choice, "
                         "grid_search), or search with random_then_grid"});
}

}  // namespace

Grid::Grid(const Space& space, std::vector<size_t> dimensions) {
  const auto dimension = [&](size_t d) -> const Dimension& { return space.dimensions()[d]; };
  std::ranges::sort(dimensions, {}, [&](size_t d) { return split(dimension(d).name, '.'); });
  for (const size_t d : dimensions) {
    axes_.push_back({d, numbers_at(space, dimension(d))});
    const auto count = static_cast<int64_t>(axes_.back().numbers.size());
    if (count > 0 && size_ > kMaxSize / count) {
      throw usage_error({.refused = "the grid",
                         .rule = "it has at most 2^53 combinations",
                         .hint = "use fewer values or parameters, or searcher random"});
    }
    size_ *= count;
  }
}

void Grid::fill(Point& point, int64_t index) const {
  for (const Axis& axis : axes_) {
    const auto count = static_cast<int64_t>(axis.numbers.size());
    point[axis.dimension] = axis.numbers[static_cast<size_t>(index % count)];
    index /= count;
  }
}

}  // namespace muster::tune
