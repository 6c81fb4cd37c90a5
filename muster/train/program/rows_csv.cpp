#include "muster/train/program/rows_csv.h"

#include <array>
#include <charconv>
#include <utility>

#include "muster/base/csv.h"
#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/dtype_name.h"

namespace muster::train {
namespace {

template <class Number>
void append_number(std::string& line, Number value) {
  std::array<char, 40> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  line.append(digits.data(), end);
}

/// One tensor as a matrix of numbers that are written alike // [rows, numbers per sample]
at::Tensor matrix_of(const std::string& name, const at::Tensor& tensor) {
  if (tensor.is_complex()) {
    throw usage_error({.refused = concat("prediction ", name),
                       .rule = "real numbers",
                       .value = tensor::dtype_name(tensor.scalar_type())});
  }
  const bool is_wide = tensor.scalar_type() == at::kDouble;
  const at::ScalarType type = is_wide                      ? at::kDouble
                              : tensor.is_floating_point() ? at::kFloat
                                                           : at::kLong;
  return tensor.to(type).reshape({tensor.size(0), -1}).contiguous();
}

void append_at(std::string& line, const at::Tensor& matrix, int64_t at) {
  line += ',';
  if (matrix.scalar_type() == at::kDouble)
    return append_number(line, matrix.const_data_ptr<double>()[at]);
  if (matrix.scalar_type() == at::kFloat)
    return append_number(line, matrix.const_data_ptr<float>()[at]);
  append_number(line, matrix.const_data_ptr<int64_t>()[at]);
}

}  // namespace

void RowsCsv::add(const PredictedRows& rows) {
  if (rows.columns.empty() || rows.columns[0].second.size(0) == 0) return;
  std::vector<at::Tensor> matrices;
  for (const auto& [name, tensor] : rows.columns) matrices.push_back(matrix_of(name, tensor));
  std::string text;
  if (!std::exchange(has_header_, true)) {
    text = "index";
    for (size_t i = 0; i < matrices.size(); ++i) {
      const auto& [name, tensor] = rows.columns[i];
      if (tensor.dim() == 1) text += ',' + csv_field(name);
      for (int64_t c = 0; tensor.dim() > 1 && c < matrices[i].size(1); ++c)
        text += ',' + csv_field(concat(name, '_', c));
    }
    text += '\n';
  }
  for (int64_t row = 0; row < matrices[0].size(0); ++row) {
    append_number(text, rows.first + row);
    for (const at::Tensor& matrix : matrices) {
      for (int64_t c = 0; c < matrix.size(1); ++c)
        append_at(text, matrix, row * matrix.size(1) + c);
    }
    text += '\n';
  }
  write_(text);
}

}  // namespace muster::train
