// Which classes a classifier takes for which.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "muster/base/json_fwd.h"

namespace muster::train {

/// Of one class c, with n[i][j] samples of class i that were taken for j:
///   precision = n[c][c] / sum_i n[i][c]     of those taken for c, the share that are c
///   recall    = n[c][c] / sum_j n[c][j]     of those that are c, the share taken for c
///   f1        = 2 n[c][c] / (sum_i n[i][c] + sum_j n[c][j])
/// A fraction without denominator is 0, as scikit-learn's zero_division=0.
struct ClassScore {
  double precision = 0;
  double recall = 0;
  double f1 = 0;
  int64_t support = 0;  ///< samples of the class
};

/// Counts samples by true and predicted class. One thread at a time.
class ConfusionMatrix {
 public:
  /// `names` are those of the classes, or empty: they are then called by their numbers. Throws a
  /// usage error if there are fewer than one class, or names, but not one per class.
  explicit ConfusionMatrix(int64_t classes, std::vector<std::string> names = {});

  /// Both // [N] int64, on any device; predicted is scores.argmax(1). Throws a usage error for a
  /// class out of range; nothing is counted then.
  void add(const at::Tensor& predicted, const at::Tensor& target);
  /// Adds another's counts. Throws a usage error for another number of classes.
  void merge(const ConfusionMatrix& other);

  /// A row per true class, a column per predicted one // [classes, classes] int64 on the CPU. It is
  /// the matrix itself: an all-reduce (sum) of it merges the ranks' matrices.
  const at::Tensor& counts() const { return counts_; }

  int64_t classes() const { return counts_.size(0); }
  int64_t total() const;
  double accuracy() const;  ///< 0 if nothing was counted
  std::vector<ClassScore> per_class() const;
  /// Means over all classes, each with the same weight; support is the total.
  ClassScore macro() const;
  std::string name(int64_t label) const;

  /// {"classes": [names], "counts": [[…]], "accuracy", "per_class": [{…}], "macro": {…}}.
  Json to_json() const;
  /// Reads "classes" and "counts" back. Throws a usage error for anything else.
  static ConfusionMatrix from_json(const Json& json);

  /// For a terminal, without colours: the matrix if it fits into `columns`, else the ten pairs
  /// confused most often; then precision, recall and F1 of each class. Ends in a line end.
  std::string to_text(int64_t columns = 80) const;
  /// For CSV: a heading row, then one row per true class: its name and its counts.
  std::vector<std::vector<std::string>> to_rows() const;

 private:
  std::vector<std::string> names_;
  at::Tensor counts_;
};

}  // namespace muster::train
