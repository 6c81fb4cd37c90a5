#include "muster/train/classifier/predictions_csv.h"

#include <array>
#include <charconv>
#include <utility>

#include "muster/base/csv.h"
#include "muster/base/text.h"

namespace muster::train {
namespace {

void append(std::string& line, float value) {
  std::array<char, 32> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  line.append(digits.data(), end);
}

/// The column of that name in the form that is read here, or an undefined tensor.
at::Tensor column(const PredictedRows& rows, std::string_view name, at::ScalarType type) {
  for (const auto& [own, tensor] : rows.columns) {
    if (own == name) return tensor.to(type).contiguous();
  }
  return {};
}

}  // namespace

PredictionsCsv::PredictionsCsv(std::vector<std::string> class_names,
                               bool all_probabilities,
                               std::function<void(std::string_view)> write,
                               std::function<std::string(int64_t)> file_of)
    : class_names_(std::move(class_names)),
      all_probabilities_(all_probabilities),
      write_(std::move(write)),
      file_of_(std::move(file_of)) {}

std::string PredictionsCsv::header(const PredictedRows& rows) const {
  std::string line =
      class_names_.empty() ? "index,class,probability" : "index,class,name,probability";
  if (all_probabilities_) {
    const int64_t classes = column(rows, "probabilities", at::kFloat).size(1);
    for (int64_t i = 0; i < classes; ++i) {
      const std::string name = class_names_.empty() ? std::to_string(i) : class_names_.at(i);
      line += ',' + csv_field("probability_" + name);
    }
  }
  if (column(rows, "target", at::kLong).defined()) line += ",target";
  if (file_of_) line += ",file";
  return line + '\n';
}

void PredictionsCsv::add(const PredictedRows& rows) {
  std::string text;
  if (!std::exchange(has_header_, true)) text = header(rows);
  const at::Tensor classes = column(rows, "class", at::kLong);
  const at::Tensor best = column(rows, "probability", at::kFloat);
  const at::Tensor all = column(rows, "probabilities", at::kFloat);
  const at::Tensor targets = column(rows, "target", at::kLong);
  const int64_t* labels = classes.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < classes.size(0); ++i) {
    text += concat(rows.first + i, ',', labels[i], ',');
    if (!class_names_.empty()) text += csv_field(class_names_.at(labels[i])) + ',';
    append(text, best.const_data_ptr<float>()[i]);
    for (int64_t c = 0; all_probabilities_ && c < all.size(1); ++c) {
      text += ',';
      append(text, all.const_data_ptr<float>()[i * all.size(1) + c]);
    }
    if (targets.defined()) text += concat(',', targets.const_data_ptr<int64_t>()[i]);
    if (file_of_) text += ',' + csv_field(file_of_(rows.first + i));
    text += '\n';
  }
  write_(text);
}

}  // namespace muster::train
