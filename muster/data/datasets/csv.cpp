// Your own rows of numbers, each with a class, or with a number that is predicted.
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include <ATen/ops/tensor.h>

#include "muster/base/error.h"
#include "muster/base/name_list.h"
#include "muster/base/text.h"
#include "muster/data/sets/row_split.h"
#include "muster/data/sets/tensor_dataset.h"
#include "muster/formats/csv_data.h"
#include "muster/formats/features.h"
#include "muster/formats/learned_rows.h"
#include "muster/text/corpus/labelled_texts.h"

namespace muster::data {
namespace {

using formats::CsvDataOptions;
using formats::Feature;
using formats::LearnedRows;
using formats::Table;

/// The rows of a float32 table, with what the run is told of them.
class CsvRows final : public Dataset {
 public:
  CsvRows(TensorDataset rows, DataSpec spec, std::string learned, std::vector<std::string> remarks)
      : rows_(std::move(rows)),
        spec_(std::move(spec)),
        learned_(std::move(learned)),
        remarks_(std::move(remarks)) {}

  int64_t size() const override { return rows_.size(); }
  DataSpec spec() const override { return spec_; }
  at::Tensor targets() const override { return rows_.targets(); }
  uint32_t fingerprint() const override { return rows_.fingerprint(); }
  std::string learned() const override { return learned_; }
  std::vector<std::string> remarks() const override { return remarks_; }

 private:
  Batch load(std::span<const int64_t> indices, const SampleContext& context) const override {
    return rows_.get(indices, context);
  }

  TensorDataset rows_;
  DataSpec spec_;
  std::string learned_;
  std::vector<std::string> remarks_;
};

/// The rows' classes by number, and what has none is bad.
std::vector<int64_t> class_numbers(Table& table, const LearnedRows& learned) {
  const size_t column = column_named(table, learned.target, "parameter \"target\"");
  const auto numbers = text::numbers_of(learned.classes);
  std::vector<int64_t> targets;
  std::erase_if(table.rows, [&](const formats::TableRow& row) {
    const auto number = numbers.find(row.fields[column]);
    if (number != numbers.end()) {
      targets.push_back(number->second);
      return false;
    }
    formats::add_bad_row(table, row.line, text::why_unknown(row.fields[column], learned.classes));
    return true;
  });
  return targets;
}

/// In float64: what is standardised is the training's business, and a number is to be read back as it stands.
at::Tensor numbers_of_target(Table& table, const Feature& target) {
  const size_t column = column_named(table, target.column, "parameter \"target\"");
  formats::move_bad_cells(table, {target});
  std::vector<double> numbers;
  for (const formats::TableRow& row : table.rows)
    numbers.push_back(formats::number_in(row.fields[column]).value_or(0));
  return at::tensor(numbers, at::kDouble);
}

/// What is predicted of each row // [rows] int64 classes, or float64 numbers. Rows that have none are bad.
at::Tensor targets_of(Table& table, const LearnedRows& learned) {
  if (learned.measured) return numbers_of_target(table, *learned.measured);
  return at::tensor(class_numbers(table, learned), at::kLong);
}

bool is_dropped(const CsvDataOptions& options, const std::string& column) {
  const std::vector<std::string> names = formats::columns_in(options.drop);
  return std::ranges::find(names, column) != names.end();
}

/// Whether nothing says what is to be predicted: the column is not there, is left away, or is empty in every row.
bool lacks_target(const Table& table, const CsvDataOptions& options, const std::string& target) {
  const auto found = std::ranges::find(table.columns, target);
  if (found == table.columns.end() || is_dropped(options, target)) return true;
  const auto column = static_cast<size_t>(found - table.columns.begin());
  return std::ranges::all_of(table.rows, [column](const formats::TableRow& row) {
    return trim(row.fields[column]).empty();
  });
}

/// The same of rows that are only asked about: undefined where nothing says what is to be predicted.
at::Tensor known_targets_of(Table& table,
                            const CsvDataOptions& options,
                            const LearnedRows& learned) {
  if (lacks_target(table, options, learned.target)) return {};
  const size_t bad_before = table.bad.size();
  at::Tensor targets = targets_of(table, learned);
  if (options.bad_rows == "raise" && table.bad.size() > bad_before)
    table.bad[bad_before].why +=
        concat("; drop=", name_text(learned.target), " leaves the target away");
  return targets;
}

/// What the model is given cannot be left away, nor read in another way.
void check_keeps_features(const CsvDataOptions& options, const LearnedRows& learned) {
  const std::vector<std::string> categorical = formats::columns_in(options.categorical);
  for (const Feature& feature : learned.features) {
    if (is_dropped(options, feature.column)) {
      throw usage_error({.refused = concat(formats::kCsvDataOwner, " parameter \"drop\""),
                         .rule = "what the run's model is given is not left away",
                         .value = feature.column});
    }
    if (feature.categories.empty() &&
        std::ranges::find(categorical, feature.column) != categorical.end()) {
      throw usage_error({.refused = concat(formats::kCsvDataOwner, " parameter \"categorical\""),
                         .rule = "what the run has learned as a number stays one",
                         .value = feature.column,
                         .hint = "leave it away: the run knows how it reads its columns"});
    }
  }
}

std::vector<std::string> feature_columns(const LearnedRows& learned) {
  std::vector<std::string> names;
  for (const Feature& feature : learned.features) names.push_back(feature.column);
  return names;
}

/// The column of one feature is none of another's, nor the target.
void check_has_features(const Table& table, const LearnedRows& learned) {
  std::vector<std::string> taken = feature_columns(learned);
  taken.push_back(learned.target);
  for (const Feature& feature : learned.features)
    column_named(table, feature.column, "a feature of the run", taken);
}

/// Slips of the hand, as a training refuses them. The run's target may be missing. Where the rows are those of `test`,
/// what is said may be of the other file alone.
void check_said_columns(const Table& table,
                        const CsvDataOptions& options,
                        const LearnedRows& learned) {
  const auto check = [&](const std::string& said, std::string_view what) {
    for (const std::string& name : formats::columns_in(said)) {
      const bool is_there = std::ranges::find(table.columns, name) != table.columns.end();
      if (is_there || name == learned.target) continue;
      const bool is_of_test = table.name == options.test;
      column_named(is_of_test ? read_csv(options, options.path) : Table(table), name, what);
    }
  };
  check(options.drop, "parameter \"drop\"");
  check(options.categorical, "parameter \"categorical\"");
}

/// Of rows that answers are to be measured by.
void check_has_target(const Table& table,
                      const CsvDataOptions& options,
                      const LearnedRows& learned) {
  if (table.rows.empty() || !lacks_target(table, options, learned.target)) return;
  const bool is_column = std::ranges::find(table.columns, learned.target) != table.columns.end();
  throw usage_error(
      {.refused = concat("the target \"", learned.target, "\" of the run"),
       .rule = concat("answers are measured by a column of that name in ", table.name),
       .value = is_dropped(options, learned.target) ? concat("drop=", name_text(learned.target))
                : is_column                         ? "one that is empty in every row"
                            : concat("the columns ", formats::columns_text(table)),
       .hint = "target=COLUMN names it anew; `muster predict` writes answers without it"});
}

/// A target that is named anew.
void check_target(const Table& table, const LearnedRows& learned, const std::string& target) {
  column_named(table, target, "parameter \"target\"", feature_columns(learned));
  if (std::ranges::find(learned.features, target, &Feature::column) == learned.features.end())
    return;
  throw usage_error({.refused = "parameter \"target\"",
                     .rule = "what the run's model is given is not what it predicts",
                     .value = concat('"', target, '"'),
                     .hint = concat("the run's target is \"", learned.target, '"')});
}

/// Nothing can be learned of a measured target that is the same in all of these rows.
std::vector<std::string> constant_remark(const Table& table,
                                         const at::Tensor& targets,
                                         const std::vector<int64_t>& rows,
                                         const std::string& target) {
  if (rows.empty()) return {};
  const double* numbers = targets.const_data_ptr<double>();
  const double first = numbers[rows[0]];
  const bool is_constant =
      std::ranges::all_of(rows, [&](int64_t row) { return numbers[row] == first; });
  if (!is_constant) return {};
  return {concat("the target \"",
                 target,
                 "\" of ",
                 table.name,
                 " is ",
                 shortest(first),
                 " in all samples but the test's: there is nothing to learn")};
}

void apply_bad_rows(const Table& table, const CsvDataOptions& options) {
  formats::apply_bad_rows(table.bad,
                          table.rows.size(),
                          options.bad_rows,
                          {.whole = "table " + table.name, .each = "rows"});
}

std::shared_ptr<const Dataset> as_rows(const Table& table,
                                       const at::Tensor& targets,
                                       const LearnedRows& learned,
                                       const std::vector<std::string>& more_remarks = {}) {
  const auto count = static_cast<int64_t>(table.rows.size());
  const auto classes = static_cast<int64_t>(learned.classes.size());
  at::Tensor data = at::tensor(formats::feature_values(table, learned.features), at::kFloat)
                        .view({count, learned.width()});
  const std::string name = "csv " + table.name;
  DataSpec spec{.name = name,
                .sample_shape = {learned.width()},
                .classes = classes,
                .class_names = learned.classes,
                .kind = DataKind::kTensor};
  TensorDataset rows = targets.defined() ? TensorDataset(std::move(data), targets, classes, name)
                                         : TensorDataset({{"data", std::move(data)}}, name);
  std::vector<std::string> remarks =
      formats::skipped_remark(table.bad, table.rows.size(), "rows", table.name);
  remarks.insert(remarks.end(), more_remarks.begin(), more_remarks.end());
  return std::make_shared<CsvRows>(
      std::move(rows), std::move(spec), formats::learned_text(learned), std::move(remarks));
}

/// What a table that was not learned from is read for.
enum class ReadFor {
  kTest,      // of the training itself
  kAnswers,   // targets may be missing
  kMeasures,  // of answers
};

/// Of a table that was learned from before.
std::shared_ptr<const Dataset> open_learned(const CsvDataOptions& options,
                                            const std::filesystem::path& path,
                                            LearnedRows learned,
                                            ReadFor purpose) {
  Table table = read_csv(options, path);
  if (options.is_measured() && !learned.measured) {
    throw usage_error({.refused = concat(formats::kCsvDataOwner, " parameter \"target_kind\""),
                       .rule = "the run tells classes apart",
                       .value = options.target_kind,
                       .hint = "leave it away: the run knows what it predicts"});
  }
  const bool is_another = !options.target.empty() && options.target != learned.target;
  if (is_another) {
    check_target(table, learned, options.target);
    learned.target = options.target;
  }
  if (learned.measured) learned.measured->column = learned.target;
  check_keeps_features(options, learned);
  if (purpose != ReadFor::kTest) check_said_columns(table, options, learned);
  check_has_features(table, learned);
  if (purpose == ReadFor::kMeasures) check_has_target(table, options, learned);
  formats::move_bad_cells(table, learned.features, learned.features);
  const at::Tensor targets = purpose == ReadFor::kAnswers
                                 ? known_targets_of(table, options, learned)
                                 : targets_of(table, learned);
  formats::sort_by_line(table.bad);
  apply_bad_rows(table, options);
  return as_rows(table, targets, learned);
}

/// Of what each split has its share: the classes; of numbers there are none, and rows are drawn from all.
std::vector<int64_t> shares_of(const at::Tensor& targets, const LearnedRows& learned) {
  if (learned.measured) return std::vector<int64_t>(static_cast<size_t>(targets.size(0)), 0);
  const int64_t* classes = targets.const_data_ptr<int64_t>();
  return {classes, classes + targets.size(0)};
}

struct TrainingTable {
  Table table;
  at::Tensor targets;
  LearnedRows learned;
  SubsetList parts;  ///< see split_rows(); none where nothing is held out
  std::vector<std::string> remarks;
};

/// `known`: what the run that goes on has learned.
TrainingTable learn_from(const CsvDataOptions& options,
                         const std::filesystem::path& path,
                         bool holds_out,
                         const LearnedRows& known) {
  formats::LabelledRows rows = formats::read_labelled_rows(options, path, known);
  std::vector<std::string> remarks = formats::empty_remarks(rows);
  TrainingTable out{.table = std::move(rows.table), .remarks = std::move(remarks)};
  Table& table = out.table;
  out.learned.target = options.target;
  out.learned.features = std::move(rows.features);
  apply_bad_rows(table, options);
  if (options.is_measured()) {
    out.learned.measured = formats::measured_target(options);
  } else {
    out.learned.classes = text::classes_of(rows.targets);
    formats::check_classes(table, options.target, out.learned.classes);
  }
  out.targets = targets_of(table, out.learned);
  std::vector<int64_t> trained(table.rows.size());
  std::iota(trained.begin(), trained.end(), 0);
  if (holds_out) {
    out.parts = split_rows(shares_of(out.targets, out.learned),
                           options.test_fraction,
                           options.split_seed,
                           formats::kCsvDataOwner);
    trained = rows_of(*out.parts[0]);
  }
  formats::learn_features(table, trained, out.learned.features);
  if (out.learned.measured) {
    std::vector<Feature> target{*out.learned.measured};
    formats::learn_features(table, trained, target);
    out.learned.measured = std::move(target[0]);
    for (std::string& line : constant_remark(table, out.targets, trained, options.target))
      out.remarks.push_back(std::move(line));
  }
  return out;
}

std::shared_ptr<const Dataset> open_csv(const DatasetRequest& request) {
  const CsvDataOptions options = formats::csv_data_options(request.params, request.data_dir);
  const bool wants_test = request.split == Split::kTest, has_test = !options.test.empty();
  const LearnedRows known =
      request.learned.empty() ? LearnedRows() : formats::learned_rows(request.learned);
  if (!request.learned.empty() && request.is_other)
    return open_learned(options,
                        wants_test && has_test ? options.test : options.path,
                        known,
                        request.needs_targets ? ReadFor::kMeasures : ReadFor::kAnswers);
  TrainingTable training = learn_from(options, options.path, !has_test, known);
  if (!request.learned.empty()) training.learned = known;
  if (has_test && wants_test)
    return open_learned(options, options.test, training.learned, ReadFor::kTest);
  const auto rows = as_rows(training.table, training.targets, training.learned, training.remarks);
  if (has_test) return rows;
  return training.parts[wants_test ? 1 : 0]->over(rows);
}

}  // namespace

extern constinit const DatasetEntry csv_entry{
    .name = "csv",
    .help = "your own rows of numbers to classes, or to a number (csv:FILE,target=COLUMN)",
    .params = formats::kCsvDataParams,
    .open = &open_csv,
};

}  // namespace muster::data
