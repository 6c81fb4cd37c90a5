// What a classifier says of each sample, as CSV.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/train/loop/predict.h"

namespace muster::train {

/// Rows of ClassifierTask::predict_step's answers, for a header and then a line per sample:
/// index, class, name (where the classes have names), probability, a probability_NAME per class if
/// they are wanted, target (where the samples have one), file (where samples are files). Numbers are float32's shortest texts that
/// read back as the same number.
class PredictionsCsv {
 public:
  /// `write` takes the text, some lines at a time. `file_of`: a sample's file by its number, or null.
  PredictionsCsv(std::vector<std::string> class_names,
                 bool all_probabilities,
                 std::function<void(std::string_view)> write,
                 std::function<std::string(int64_t)> file_of = {});

  void add(const PredictedRows& rows);

 private:
  std::string header(const PredictedRows& rows) const;

  std::vector<std::string> class_names_;
  bool all_probabilities_;
  std::function<void(std::string_view)> write_;
  std::function<std::string(int64_t)> file_of_;
  bool has_header_ = false;
};

}  // namespace muster::train
