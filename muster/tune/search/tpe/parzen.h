// TPE's density over some dimensions: a mixture of product kernels around observed points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "muster/tune/search/tpe/axis.h"
#include "muster/tune/search/tpe/mixture.h"
#include "muster/tune/search/tpe/random_stream.h"
#include "muster/tune/search/tpe/stepped_kernels.h"

namespace muster::tune {

struct ParzenOptions {
  double prior_weight = 1;  ///< of the kernel that stands for no knowledge, in observations
  int64_t recent = 25;      ///< observations of full weight; older ones have less, see below
};

/// Some numbers per dimension: numbers[d][c] is candidate c's.
struct Candidates {
  size_t count = 0;
  std::vector<std::vector<double>> numbers;
};

// Note [Parzen estimators]
// Each observation is a kernel: a product of a normal distribution per numeric dimension, cut at
// the bounds (in the logarithm for logarithmic ones, integrated over a step for stepped ones), and
// a distribution per category that favours its own. One more kernel is the prior, as wide as the
// space. A numeric kernel's width is the larger of the gaps to the centres on either side, of the
// bounds where there is none (of the inner gap alone if there are two or more), at least
// range / min(100, n + 2) and at most the range. Observations of n that are older than the `recent`
// latest have weights that rise from 1/n to 1 by age.
// Source: Watanabe 2023, "Tree-structured Parzen estimator", arXiv 2304.11127; in the form of
// optuna 5.0.0, samplers/_tpe/parzen_estimator.py, whose log densities are ours to 1e-10. Equal
// centres share gaps in the order of their age (Optuna: in any order).
//
// The same calls of insert() and erase() give the same densities to the last digit, whatever was
// asked between them. They only note what changed; what hangs on it (orders by centre, widths, weights)
// is brought up to date when a density is wanted, by merging, so that it costs little to insert one
// and not much more to insert thousands.

class ParzenEstimator {
 public:
  ParzenEstimator(std::vector<ParzenAxis> axes, const ParzenOptions& options);

  /// Observations that are there.
  size_t size() const { return size_; }

  /// `numbers` has one per axis. No two observations have one age; lower ones are older.
  void insert(int64_t age, std::span<const double> numbers);
  void erase(int64_t age);

  /// `count` draws. Where `fixed` has a number (it has one per axis, or NaN) all have it, and the
  /// rest is drawn from what the mixture says under that condition.
  Candidates draw(size_t count, std::span<const double> fixed, RandomStream& random);

  /// The logarithm of the density at each candidate; in a logarithmic dimension that of its
  /// logarithm, as Optuna has it.
  std::vector<double> log_density(const Candidates& candidates);

 private:
  using Slot = uint32_t;
  static constexpr Slot kPrior = 0;

  struct Column {
    ParzenAxis axis;
    std::vector<double> centre;     // [slots] places
    std::vector<double> width;      // [slots] numeric
    std::vector<double> scale;      // [slots] continuous: 1 / (√2 width)
    std::vector<double> norm;       // [slots] numeric: what a kernel's logarithm has everywhere
    std::vector<int32_t> category;  // [slots]
    std::vector<uint32_t> kernel_class;  // [slots] stepped
    SteppedKernels kernels;              // stepped
    std::vector<Slot> by_centre;         // numeric, observations
    bool numeric() const { return axis.kind != ParzenAxis::kCategory; }
  };
  /// A category's share in its own kernel and in others, and in the prior.
  struct Shares {
    double log_other, bonus, log_prior;
  };

  Slot take_slot();
  void refresh();
  void refresh_orders();
  void refresh_widths(Column& column);
  void set_width(Column& column, Slot slot, double width);
  void refresh_offsets();
  void refresh_weights();
  Shares shares(const Column& column) const;
  void log_densities(const Candidates& candidates, size_t first, size_t count, double* out) const;
  void add_stepped(const Column& column, std::span<const double> numbers, double* logs) const;
  double log_kernel(const Column& column, Slot slot, double number) const;
  std::vector<double> chances(std::span<const double> fixed) const;
  double draw_from(const Column& column, Slot slot, RandomStream& random) const;

  ParzenOptions options_;
  std::vector<Column> columns_;
  size_t size_ = 0;
  std::vector<int64_t> age_;             // [slots]
  std::vector<char> is_dead_;            // [slots]
  std::vector<double> weight_, offset_;  // [slots]
  double log_total_weight_ = 0;
  double log_others_ = 0;                      // of all categories: what every kernel has
  std::unordered_map<int64_t, Slot> slot_of_;  // by age
  std::vector<Slot> by_age_;
  // Not in the orders yet, and free to be taken. A slot that is_dead_ is still in them; it may be
  // fresh as well.
  std::vector<Slot> fresh_, free_;
  bool any_dead_ = false;
  Slot used_ = 0;  // slots below have been used
  bool is_stale_ = true;
};

}  // namespace muster::tune
