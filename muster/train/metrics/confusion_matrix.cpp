#include "muster/train/metrics/confusion_matrix.h"

#include <algorithm>
#include <array>

#include <ATen/ops/bincount.h>
#include <ATen/ops/zeros.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tensor/dtype_name.h"

namespace muster::train {
namespace {

constexpr size_t kPairs = 10;  // shown instead of a matrix that does not fit

double ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::string right_aligned(const std::string& text, size_t width) {
  const size_t used = display_width(text);
  return std::string(width > used ? width - used : 0, ' ') + text;
}

std::string left_aligned(const std::string& text, size_t width) {
  const size_t used = display_width(text);
  return text + std::string(width > used ? width - used : 0, ' ');
}

size_t widest(const std::vector<std::vector<std::string>>& rows, size_t column) {
  size_t width = 0;
  for (const auto& row : rows) width = std::max(width, display_width(row[column]));
  return width;
}

/// The first column to the left, the others to the right, two blanks between.
std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::string out;
  std::vector<size_t> widths;
  for (size_t column = 0; column < rows[0].size(); ++column) widths.push_back(widest(rows, column));
  for (const auto& row : rows) {
    out += left_aligned(row[0], widths[0]);
    for (size_t column = 1; column < row.size(); ++column)
      out += "  " + right_aligned(row[column], widths[column]);
    out += '\n';
  }
  return out;
}

size_t width_of(const std::vector<std::vector<std::string>>& rows) {
  size_t width = widest(rows, 0);
  for (size_t column = 1; column < rows[0].size(); ++column) width += 2 + widest(rows, column);
  return width;
}

Json score_json(const ClassScore& score) {
  return {{"precision", score.precision},
          {"recall", score.recall},
          {"f1", score.f1},
          {"support", score.support}};
}

std::vector<std::string> score_row(const std::string& name, const ClassScore& score) {
  return {name,
          fixed(score.precision, 4),
          fixed(score.recall, 4),
          fixed(score.f1, 4),
          std::to_string(score.support)};
}

void require_labels(const at::Tensor& labels, int64_t classes, const char* what) {
  if (labels.dim() != 1 || labels.scalar_type() != at::kLong) {
    throw usage_error(
        {.refused = concat("confusion matrix: ", what),
         .rule = "one int64 class number per sample, [N]",
         .value = concat(tensor::dtype_name(labels.scalar_type()), " ", labels.sizes())});
  }
  if (labels.numel() == 0) return;
  const auto least = labels.min().item<int64_t>(), greatest = labels.max().item<int64_t>();
  if (least < 0 || greatest >= classes) {
    throw usage_error({.refused = concat("confusion matrix: ", what),
                       .rule = concat("classes are 0 to ", classes - 1),
                       .value = std::to_string(least < 0 ? least : greatest)});
  }
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(int64_t classes, std::vector<std::string> names)
    : names_(std::move(names)) {
  if (classes < 1 || (!names_.empty() && static_cast<int64_t>(names_.size()) != classes)) {
    throw usage_error({.refused = "confusion matrix",
                       .rule = "at least one class, and a name for each or for none",
                       .value = concat(classes, " classes, ", names_.size(), " names")});
  }
  counts_ = at::zeros({classes, classes}, at::kLong);
}

void ConfusionMatrix::add(const at::Tensor& predicted, const at::Tensor& target) {
  require_labels(predicted, classes(), "predicted");
  require_labels(target, classes(), "target");
  if (predicted.sizes() != target.sizes()) {
    throw usage_error({.refused = "confusion matrix",
                       .rule = "as many predictions as targets",
                       .value = concat(predicted.numel(), " and ", target.numel())});
  }
  const at::Tensor cells = target.mul(classes()).add(predicted);
  counts_.add_(at::bincount(cells, {}, classes() * classes()).cpu().view_as(counts_));
}

void ConfusionMatrix::merge(const ConfusionMatrix& other) {
  if (other.classes() != classes()) {
    throw usage_error({.refused = "confusion matrix",
                       .rule = concat("it merges with one of ", classes(), " classes"),
                       .value = std::to_string(other.classes())});
  }
  counts_.add_(other.counts_);
}

int64_t ConfusionMatrix::total() const { return counts_.sum().item<int64_t>(); }

double ConfusionMatrix::accuracy() const { return ratio(counts_.trace().item<int64_t>(), total()); }

std::vector<ClassScore> ConfusionMatrix::per_class() const {
  const at::Tensor truth = counts_.sum(1), guesses = counts_.sum(0), hits = counts_.diagonal();
  std::vector<ClassScore> out;
  for (int64_t label = 0; label < classes(); ++label) {
    const auto hit = hits[label].item<int64_t>();
    const auto is = truth[label].item<int64_t>(), taken = guesses[label].item<int64_t>();
    out.push_back({ratio(hit, taken), ratio(hit, is), ratio(2 * hit, is + taken), is});
  }
  return out;
}

ClassScore ConfusionMatrix::macro() const {
  ClassScore mean;
  for (const ClassScore& score : per_class()) {
    mean.precision += score.precision;
    mean.recall += score.recall;
    mean.f1 += score.f1;
    mean.support += score.support;
  }
  const auto count = static_cast<double>(classes());
  return {mean.precision / count, mean.recall / count, mean.f1 / count, mean.support};
}

std::string ConfusionMatrix::name(int64_t label) const {
  return names_.empty() ? std::to_string(label) : names_.at(static_cast<size_t>(label));
}

Json ConfusionMatrix::to_json() const {
  Json names = Json::array(), counts = Json::array(), scores = Json::array();
  const int64_t* count = counts_.const_data_ptr<int64_t>();
  for (int64_t row = 0; row < classes(); ++row, count += classes()) {
    names.push_back(name(row));
    counts.push_back(std::vector<int64_t>(count, count + classes()));
  }
  for (const ClassScore& score : per_class()) scores.push_back(score_json(score));
  return {{"classes", names},
          {"counts", counts},
          {"accuracy", accuracy()},
          {"per_class", scores},
          {"macro", score_json(macro())}};
}

ConfusionMatrix ConfusionMatrix::from_json(const Json& json) {
  try {
    const auto rows = json.at("counts").get<std::vector<std::vector<int64_t>>>();
    ConfusionMatrix out(static_cast<int64_t>(rows.size()),
                        json.at("classes").get<std::vector<std::string>>());
    auto* cell = out.counts_.mutable_data_ptr<int64_t>();
    for (const auto& row : rows) {
      const bool negative = std::any_of(row.begin(), row.end(), [](int64_t n) { return n < 0; });
      if (row.size() != rows.size() || negative) {
        throw usage_error(
            {.refused = "confusion matrix", .rule = "as many rows as columns, of counts from 0"});
      }
      cell = std::copy(row.begin(), row.end(), cell);
    }
    return out;
  } catch (const Json::exception& error) {
    throw usage_error({.refused = "confusion matrix",
                       .rule = "an object with classes and counts",
                       .value = error.what()});
  }
}

std::vector<std::vector<std::string>> ConfusionMatrix::to_rows() const {
  std::vector<std::vector<std::string>> rows{{"true \\ predicted"}};
  const int64_t* count = counts_.const_data_ptr<int64_t>();
  for (int64_t label = 0; label < classes(); ++label) {
    rows[0].push_back(name(label));
    std::vector<std::string> row{name(label)};
    for (int64_t other = 0; other < classes(); ++other) row.push_back(std::to_string(*count++));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string ConfusionMatrix::to_text(int64_t columns) const {
  std::string out;
  const auto matrix = to_rows();
  if (width_of(matrix) <= static_cast<size_t>(std::max<int64_t>(0, columns))) {
    out = table(matrix);
  } else {
    const int64_t* count = counts_.const_data_ptr<int64_t>();
    std::vector<std::array<int64_t, 3>> pairs;  // count, true, predicted
    for (int64_t cell = 0; cell < classes() * classes(); ++cell) {
      if (count[cell] > 0 && cell / classes() != cell % classes())
        pairs.push_back({count[cell], cell / classes(), cell % classes()});
    }
    std::stable_sort(
        pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a[0] > b[0]; });
    pairs.resize(std::min(pairs.size(), kPairs));
    std::vector<std::vector<std::string>> rows{{"true", "taken for", "times"}};
    for (const auto& [times, label, other] : pairs)
      rows.push_back({name(label), name(other), std::to_string(times)});
    out = table(rows);
  }
  std::vector<std::vector<std::string>> rows{{"class", "precision", "recall", "F1", "samples"}};
  const std::vector<ClassScore> scores = per_class();
  for (int64_t label = 0; label < classes(); ++label)
    rows.push_back(score_row(name(label), scores[static_cast<size_t>(label)]));
  rows.push_back(score_row("macro mean", macro()));
  return out + '\n' + table(rows) + concat("accuracy ", fixed(accuracy(), 4), '\n');
}

}  // namespace muster::train
