// Your own rows of numbers, each with a class.
#include <algorithm>
#include <numeric>
#include <utility>

#include <ATen/ops/tensor.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/name_list.h"
#include "muster/base/text.h"
#include "muster/data/sets/row_split.h"
#include "muster/data/sets/tensor_dataset.h"
#include "muster/formats/features.h"
#include "muster/text/corpus/labelled_texts.h"

namespace muster::data {
namespace {

using formats::Feature;
using formats::Table;

struct CsvDataOptions {
  std::string path;
  std::string test;
  std::string target;
  std::string categorical;
  std::string drop;
  std::string delimiter = "auto";
  bool header = true;
  bool quotes = true;
  std::string bad_rows = "raise";
  double test_fraction = 0.2;
  int64_t split_seed = 0;
};

constexpr Param kCsvParams[] = {
    param<&CsvDataOptions::path>("path", "a table; it may stand first, alone"),
    param<&CsvDataOptions::test>("test", "a table of the test samples; none: some are held out"),
    param<&CsvDataOptions::target>("target", "the column of the classes"),
    param<&CsvDataOptions::categorical>("categorical",
                                        "columns whose values get a number each: a, or [a,b]"),
    param<&CsvDataOptions::drop>("drop", "columns that are left away: a, or [a,b]"),
    param<&CsvDataOptions::delimiter>(
        "delimiter", "comma, tab, semicolon, pipe, or a character; auto: by the file's ending"),
    param<&CsvDataOptions::header>("header", "the first row names the columns; else 0, 1, …"),
    param<&CsvDataOptions::quotes>("quotes", "a field may stand in quotes, as RFC 4180 has it"),
    param<&CsvDataOptions::bad_rows>("bad_rows", "that are no samples: raise or skip"),
    param<&CsvDataOptions::test_fraction>("test_fraction",
                                          "held out of each class where there is no test file"),
    param<&CsvDataOptions::split_seed>("split_seed", "which ones these are"),
};

constexpr std::string_view kCsvOwner = "dataset csv";
constexpr size_t kMostCsvClasses = 1000;

CsvDataOptions csv_options(const DatasetRequest& request) {
  auto options = resolve_params<CsvDataOptions>(kCsvParams, request.params, kCsvOwner);
  formats::check_row_params(kCsvOwner, options.bad_rows, options.test_fraction);
  if (!request.data_dir.empty()) options.path = request.data_dir.string();
  if (!options.path.empty()) return options;
  throw usage_error({.refused = std::string(kCsvOwner),
                     .rule = "it is given a file",
                     .value = "none",
                     .hint = "name it: csv:FILE,target=COLUMN"});
}

/// "a" or "[a,b]"; none where nothing is said.
std::vector<std::string> columns_in(const std::string& text) {
  return text.empty() ? std::vector<std::string>() : names_in(text);
}

/// What the training split teaches, as JSON in DatasetRequest::learned.
struct LearnedRows {
  std::string target;
  std::vector<std::string> classes;
  std::vector<Feature> features;

  int64_t width() const {
    int64_t sum = 0;
    for (const Feature& feature : features) sum += feature.width();
    return sum;
  }
};

std::string json_of(const LearnedRows& learned) {
  Json columns = Json::array();
  for (const Feature& feature : learned.features) {
    Json column = {{"name", feature.column}};
    if (feature.categories.empty()) {
      column["mean"] = feature.mean;
      column["deviation"] = feature.deviation;
    } else {
      column["categories"] = feature.categories;
    }
    columns.push_back(std::move(column));
  }
  return json_text(
      {{"classes", learned.classes}, {"target", learned.target}, {"columns", std::move(columns)}});
}

LearnedRows learned_rows(const std::string& text) {
  const Json json = parse_json(text, "what the run's rows were read by");
  try {
    LearnedRows learned{.target = json.at("target"), .classes = json.at("classes")};
    for (const Json& column : json.at("columns")) {
      Feature feature{.column = column.at("name")};
      if (column.contains("categories")) {
        feature.categories = column.at("categories").get<std::vector<std::string>>();
      } else {
        feature.mean = column.at("mean");
        feature.deviation = column.at("deviation");
      }
      learned.features.push_back(std::move(feature));
    }
    return learned;
  } catch (const Json::exception& error) {
    throw environment_error({.refused = "what the run's rows were read by",
                             .rule = "it is as a training keeps it",
                             .value = error.what()});
  }
}

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

/// Throws for targets that are no classes.
void check_classes(const Table& table, size_t target, const std::vector<std::string>& classes) {
  const auto refuse = [&](const char* rule, std::string value) {
    throw usage_error(
        {.refused = concat("column \"", table.columns[target], "\" of ", table.name),
         .rule = rule,
         .value = std::move(value),
         .hint = "muster train tells classes apart; a program that predicts numbers begins with "
                 "`muster new DIR --task regress`"});
  };
  const bool are_numbers = std::ranges::all_of(
      classes, [](const std::string& name) { return to_double(name).has_value(); });
  const auto fraction = std::ranges::find_if(
      classes, [](const std::string& name) { return !to_int(name).has_value(); });
  if (are_numbers && fraction != classes.end())
    refuse("classes are texts or whole numbers", concat('"', *fraction, "\", …"));
  const bool is_many = classes.size() > kMostCsvClasses || classes.size() * 2 > table.rows.size();
  if (are_numbers && is_many && classes.size() > 2)
    refuse("each class has some rows",
           concat(classes.size(), " values in ", table.rows.size(), " rows"));
}

/// The rows' classes by number, and what has none is bad. Empty where there is no such column and
/// nobody needs one.
std::vector<int64_t> class_numbers(Table& table, const LearnedRows& learned, bool needs_target) {
  const auto found = std::ranges::find(table.columns, learned.target);
  if (found == table.columns.end() && !needs_target) return {};
  const size_t column = column_named(table, learned.target, "parameter \"target\"");
  const auto numbers = text::numbers_of(learned.classes);
  std::vector<int64_t> targets;
  std::erase_if(table.rows, [&](const formats::TableRow& row) {
    const auto number = numbers.find(row.fields[column]);
    if (number != numbers.end()) {
      targets.push_back(number->second);
      return false;
    }
    table.bad.push_back({concat(table.name, ':', row.line),
                         text::why_unknown(row.fields[column], learned.classes)});
    return true;
  });
  return targets;
}

void apply_bad_rows(const Table& table, const CsvDataOptions& options) {
  formats::apply_bad_rows(table.bad,
                          table.rows.size(),
                          options.bad_rows,
                          {.whole = "table " + table.name, .each = "rows"});
}

std::shared_ptr<const Dataset> as_rows(const Table& table,
                                       const std::vector<int64_t>& targets,
                                       const LearnedRows& learned) {
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
  TensorDataset rows =
      targets.empty()
          ? TensorDataset({{"data", std::move(data)}}, name)
          : TensorDataset(std::move(data), at::tensor(targets, at::kLong), classes, name);
  return std::make_shared<CsvRows>(
      std::move(rows),
      std::move(spec),
      json_of(learned),
      formats::skipped_remark(table.bad, table.rows.size(), "rows", table.name));
}

Table read_csv(const CsvDataOptions& options, const std::filesystem::path& path) {
  return formats::read_table(
      path, {.delimiter = options.delimiter, .header = options.header, .quotes = options.quotes});
}

/// Of a table that was learned from before.
std::shared_ptr<const Dataset> open_learned(const CsvDataOptions& options,
                                            const std::filesystem::path& path,
                                            LearnedRows learned,
                                            bool needs_target) {
  Table table = read_csv(options, path);
  if (!options.target.empty()) learned.target = options.target;
  formats::move_bad_numbers(table, learned.features);
  const std::vector<int64_t> targets = class_numbers(table, learned, needs_target);
  apply_bad_rows(table, options);
  return as_rows(table, targets, learned);
}

struct TrainingTable {
  Table table;
  std::vector<int64_t> targets;
  LearnedRows learned;
  SubsetList parts;  ///< see split_rows(); none where nothing is held out
};

TrainingTable learn_from(const CsvDataOptions& options,
                         const std::filesystem::path& path,
                         bool holds_out) {
  if (options.target.empty()) {
    throw usage_error({.refused = concat(kCsvOwner, " parameter \"target\""),
                       .rule = "it is said which column has the classes",
                       .value = "none"});
  }
  TrainingTable out{.table = read_csv(options, path)};
  Table& table = out.table;
  out.learned.target = options.target;
  out.learned.features = formats::features_of(table,
                                              {.target = options.target,
                                               .drop = columns_in(options.drop),
                                               .categorical = columns_in(options.categorical)});
  formats::move_bad_numbers(table, out.learned.features);
  const size_t target = column_named(table, options.target, "parameter \"target\"");
  std::vector<std::string> names;
  std::erase_if(table.rows, [&](const formats::TableRow& row) {
    const bool is_empty = row.fields[target].empty();
    if (is_empty) table.bad.push_back({concat(table.name, ':', row.line), "it has no class"});
    if (!is_empty) names.push_back(row.fields[target]);
    return is_empty;
  });
  apply_bad_rows(table, options);
  out.learned.classes = text::classes_of(names);
  check_classes(table, target, out.learned.classes);
  out.targets = class_numbers(table, out.learned, /*needs_target=*/true);
  std::vector<int64_t> trained(out.targets.size());
  std::iota(trained.begin(), trained.end(), 0);
  if (holds_out) {
    out.parts = split_rows(out.targets, options.test_fraction, options.split_seed, kCsvOwner);
    trained = rows_of(*out.parts[0]);
  }
  formats::learn_features(table, trained, out.learned.features);
  return out;
}

std::shared_ptr<const Dataset> open_csv(const DatasetRequest& request) {
  const CsvDataOptions options = csv_options(request);
  const bool wants_test = request.split == Split::kTest, has_test = !options.test.empty();
  if (!request.learned.empty() && request.is_other)
    return open_learned(options,
                        wants_test && has_test ? options.test : options.path,
                        learned_rows(request.learned),
                        /*needs_target=*/false);
  TrainingTable training = learn_from(options, options.path, !has_test);
  if (!request.learned.empty()) training.learned = learned_rows(request.learned);
  if (has_test && wants_test)
    return open_learned(options, options.test, training.learned, /*needs_target=*/true);
  const auto rows = as_rows(training.table, training.targets, training.learned);
  if (has_test) return rows;
  return training.parts[wants_test ? 1 : 0]->over(rows);
}

}  // namespace

extern constinit const DatasetEntry csv_entry{
    .name = "csv",
    .help = "your own rows of numbers, each with a class (csv:FILE,target=COLUMN)",
    .params = kCsvParams,
    .open = &open_csv,
};

}  // namespace muster::data
