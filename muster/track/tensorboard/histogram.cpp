#include "muster/track/tensorboard/histogram.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::track {
namespace {

constexpr double kFirstEdge = 1e-12;
constexpr double kGrowth = 1.1;
constexpr double kEnd = 1e20;

// Cells of a finer grid by the bits of a double: exponent and four bits of the mantissa. Neighbours
// are at most a factor 17/16 < 1.1 apart, so a cell holds at most one edge.
constexpr int kCellShift = 48;
uint64_t cell_of(double size) { return std::bit_cast<uint64_t>(size) >> kCellShift; }

/// The positive edges, and where to begin looking among them.
class Edges {
 public:
  Edges() {
    // Multiplied up as Python does, so that the last bits agree.
    for (double edge = kFirstEdge; edge < kEnd; edge *= kGrowth) edges_.push_back(edge);
    first_cell_ = cell_of(edges_.front());
    size_t below = 0;
    for (uint64_t cell = first_cell_; cell <= cell_of(edges_.back()); ++cell) {
      const double start = std::bit_cast<double>(cell << kCellShift);
      while (below < edges_.size() && edges_[below] < start) ++below;
      below_cell_.push_back(below);
    }
  }

  size_t size() const { return edges_.size(); }
  double operator[](size_t index) const { return edges_[index]; }
  double last() const { return edges_.back(); }

  /// Number of edges below `size`, with one equal to it if `or_equal`. 0 <= size <= last().
  size_t below(double size, bool or_equal) const {
    const uint64_t cell = cell_of(size);
    if (cell < first_cell_) return 0;
    const size_t count = below_cell_[cell - first_cell_];
    if (count == edges_.size()) return count;
    return count + (or_equal ? edges_[count] <= size : edges_[count] < size);
  }

 private:
  std::vector<double> edges_;
  std::vector<size_t> below_cell_;  // edges below the cell's start
  uint64_t first_cell_ = 0;
};

const Edges& edges() {
  static const Edges edges;
  return edges;
}

/// All 2n+1 edges run -e[n-1] … -e[0], 0, e[0] … e[n-1]; the one at `index`.
double edge_at(size_t index) {
  const size_t n = edges().size();
  if (index == n) return 0;
  return index > n ? edges()[index - n - 1] : -edges()[n - 1 - index];
}

/// The bin of a value that is within the outermost edges: [edge, next edge), the last one closed.
size_t bin_of(const Edges& edges, double value) {
  const size_t n = edges.size();
  // -0.0 is 0 too.
  if (value >= 0) return n + std::min(edges.below(std::abs(value), true), n - 1);
  return n - 1 - edges.below(-value, false);
}

/// [count] of every bin, and the sums. -e[n-1] itself is the left edge of bin 0.
template <class Number>
std::vector<double> count(std::span<const Number> values, Histogram& out) {
  const Edges& all = edges();
  std::vector<uint64_t> bins(2 * all.size());
  const double last = all.last();
  double sum = 0, sum_squares = 0, min = INFINITY, max = -INFINITY;  // locals stay in registers
  for (const double value : values) {
    sum += value;
    sum_squares += value * value;
    min = value < min ? value : min;
    max = value > max ? value : max;
    if (std::abs(value) <= last) ++bins[bin_of(all, value)];
  }
  if (std::isnan(sum)) {  // NaN among the values, or infinities of both signs
    const auto nan = [](Number value) { return std::isnan(value); };
    if (std::any_of(values.begin(), values.end(), nan)) min = max = NAN;
  }
  out = {min, max, static_cast<double>(values.size()), sum, sum_squares};
  return {bins.begin(), bins.end()};
}

/// Keeps the bins from the first to the last in use, and one more to the left as the first limit.
void keep_used(const std::vector<double>& bins, Histogram& out) {
  const auto used = [](double count) { return count > 0; };
  const auto first = std::find_if(bins.begin(), bins.end(), used);
  if (first == bins.end()) {
    throw usage_error({.refused = "a histogram of nothing",
                       .rule = "at least one value is finite and within 1e20 of 0",
                       .value = concat(out.num, " values")});
  }
  const size_t start = static_cast<size_t>(first - bins.begin());
  const size_t end =
      static_cast<size_t>(std::find_if(bins.rbegin(), bins.rend(), used).base() - bins.begin());
  out.bucket_limit.push_back(edge_at(start));
  out.bucket.push_back(0);
  for (size_t bin = start; bin < end; ++bin) {
    out.bucket_limit.push_back(edge_at(bin + 1));
    out.bucket.push_back(bins[bin]);
  }
}

template <class Number>
Histogram histogram_of(std::span<const Number> values) {
  Histogram out;
  keep_used(count(values, out), out);
  return out;
}

}  // namespace

Histogram tensorboard_histogram(std::span<const double> values) { return histogram_of(values); }
Histogram tensorboard_histogram(std::span<const float> values) { return histogram_of(values); }

}  // namespace muster::track
