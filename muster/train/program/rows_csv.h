// What any task says of each sample, as CSV.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "muster/train/loop/predict.h"

namespace muster::train {

/// A header, then a line per sample: its index, and each of predict_step()'s tensors: NAME for one
/// number per sample, NAME_0, NAME_1, … for more. Numbers are the shortest texts that read back as
/// the same number of their dtype (float32 for 16-bit ones).
class RowsCsv {
 public:
  /// `write` takes the text, some lines at a time.
  explicit RowsCsv(std::function<void(std::string_view)> write) : write_(std::move(write)) {}

  /// Throws a usage error for complex numbers, which have no such text.
  void add(const PredictedRows& rows);

 private:
  std::function<void(std::string_view)> write_;
  bool has_header_ = false;
};

}  // namespace muster::train
