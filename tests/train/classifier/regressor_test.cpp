// `muster train` of a target that is measured: its loss, its metrics, its own units.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/train/classifier/asked_classifier.h"
#include "muster/train/classifier/regressor_task.h"
#include "muster/train/loop/predict.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/small_run.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

/// 90 rows of y = 1000 + 50 a - 20 b, some way off.
std::string put_priced_rows(const std::filesystem::path& folder) {
  std::string table = "a,b,price\n";
  uint64_t state = 7;
  const auto draw = [&state] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(state >> 40U) / static_cast<double>(1U << 24U);
  };
  for (int i = 0; i < 90; ++i) {
    const double a = draw(), b = draw();
    table += concat(a, ',', b, ',', 1000 + 50 * a - 20 * b + draw(), '\n');
  }
  write_file_atomic(folder / "rows.csv", table);
  return concat("csv:", (folder / "rows.csv").string(), ",target=price,target_kind=number");
}

train::TrainOptions priced_run(const std::filesystem::path& folder) {
  train::TrainOptions options;
  options.model = "mlp:hidden=8,layers=1";
  options.data = put_priced_rows(folder);
  options.epochs = 12;
  options.batch_size = 12;
  options.optimizer = "adam";
  options.lr = 0.02;
  options.workers = 0;
  options.log_every = 5;
  options.validation_samples = 10;
  options.keep_checkpoints = 1000;
  return options;
}

struct Priced {
  train::Metrics metrics;
  at::Tensor predicted, target;  // of the test samples
};

/// What the newest checkpoint of a run says of its test samples.
Priced priced(const std::filesystem::path& run, int ranks) {
  Priced first;
  testing::run_ranks(ranks, [&](distributed::ProcessGroup group) {
    const train::AskedClassifier asked =
        train::ask_classifier({.run = run}, {.world_size = ranks, .cores = 2}, group);
    EXPECT_TRUE(asked.is_regression);
    const train::Evaluation seen =
        train::evaluate(*asked.task, asked.samples, group, asked.options);
    std::vector<at::Tensor> predicted, target;
    train::predict(
        *asked.task, asked.samples, group, asked.options, [&](const train::PredictedRows& rows) {
          predicted.push_back(rows.columns.at(0).second);
          target.push_back(rows.columns.at(1).second);
        });
    if (group.rank() == 0) first = {seen.metrics, at::cat(predicted), at::cat(target)};
  });
  return first;
}

TEST(Regressor, ItsMetricsAreThoseOfTheFormulasInTheTargetsUnits) {
  for (const int ranks : {1, 2, 3}) {
    const test::Folder folder;
    const test::Ran ran = test::run(priced_run(folder.path()), ranks, folder.path() / "run");
    const Priced seen = priced(folder.path() / "run", ranks);
    ASSERT_EQ(seen.predicted.scalar_type(), torch::kDouble);
    ASSERT_EQ(seen.predicted.size(0), 18);
    const at::Tensor error = seen.predicted - seen.target;
    const double squares = error.square().sum().item<double>();
    const double total = (seen.target - seen.target.mean()).square().sum().item<double>();
    EXPECT_NEAR(seen.metrics["rmse"], std::sqrt(squares / 18), 1e-4) << ranks;
    EXPECT_NEAR(seen.metrics["mae"], error.abs().mean().item<double>(), 1e-4);
    EXPECT_NEAR(seen.metrics["r2"], 1 - squares / total, 1e-5);
    EXPECT_GT(seen.metrics["r2"], 0.8) << "it has learned";
    EXPECT_GT(seen.target.min().item<double>(), 970) << "as in the table";
    EXPECT_EQ(seen.metrics, ran.result.test.metrics) << "to the bit";
    EXPECT_EQ(seen.metrics.items().size(), 4U) << "no hidden ones";
  }
}

TEST(Regressor, GoesOnBitForBit) {
  for (const int ranks : {1, 2}) {
    const test::Folder folder;
    const train::TrainOptions options = priced_run(folder.path());
    const test::Ran whole = test::run(options, ranks, folder.path() / "whole");
    const test::Ran cut = test::run(options, ranks, folder.path() / "cut", {}, /*stop_after=*/8);
    const test::Ran resumed =
        test::run(options, ranks, folder.path() / "cut", cut.result.checkpoint);
    test::expect_same_state(whole.last, resumed.last);
    EXPECT_EQ(whole.result.test.metrics, resumed.result.test.metrics);
  }
}

TEST(Regressor, APlanSaysWhatIsStandardised) {
  const test::Folder folder;
  const auto plan_of = [&](train::TrainOptions options) {
    const train::TrainData data = train::open_data(options.data, {});
    return train::resolve(options, {.cores = 2}, *data.train, *data.test);
  };
  const auto refused = [&](train::TrainOptions options) {
    return test::refusal_of([&] { plan_of(options); });
  };
  train::TrainOptions options = priced_run(folder.path());
  const train::TrainPlan plan = plan_of(options);
  EXPECT_EQ(plan.options.loss, "mse");
  EXPECT_EQ(plan.options.monitor, "validate_loss");
  EXPECT_TRUE(plan.monitor_falls);
  EXPECT_EQ(plan.options.validation_split, "random");
  EXPECT_THAT(train::explain(plan), HasSubstr("one number"));
  EXPECT_THAT(train::explain(plan), HasSubstr("mse of the standardised target (less 10"));
  EXPECT_THAT(train::explain(plan), HasSubstr(", of the samples that are not the test's)"));
  train::TrainOptions other = options;
  other.validation_samples = 0;
  EXPECT_EQ(plan_of(other).learned, plan.learned) << "validation samples are learned from, too";
  options.monitor = "validate_rmse";
  EXPECT_TRUE(plan_of(options).monitor_falls);
  options.monitor = "validate_r2";
  EXPECT_FALSE(plan_of(options).monitor_falls);
  options.monitor = "validate_accuracy";
  EXPECT_THAT(refused(options),
              HasSubstr("validate_rmse or validate_mae or validate_r2 or validate_loss"));
  options.monitor = "auto";
  options.loss = "cross_entropy";
  EXPECT_THAT(refused(options), HasSubstr("the target is a number, and there are no classes"));
  options.loss = "hubr";
  EXPECT_THAT(refused(options), HasSubstr("did you mean \"huber\"?"));
  options.loss = "huber:delta=0";
  EXPECT_THAT(refused(options), HasSubstr("its parameter is above 0 (got 0)"));
  options.loss = "mse:delta=1";
  EXPECT_THAT(refused(options), HasSubstr("delta"));
  options.loss = "auto";
  options.top_k = 2;
  EXPECT_THAT(refused(options), HasSubstr("--top-k: it is of classes"));
  options.top_k = 0;
  options.model = "lenet";
  EXPECT_THAT(refused(options), HasSubstr("it does not take rows of numbers"));
  train::TrainOptions classes = test::small_run();
  EXPECT_EQ(plan_of(classes).options.loss, "cross_entropy");
  EXPECT_EQ(plan_of(classes).options.monitor, "validate_accuracy");
  classes.loss = "mse";
  EXPECT_THAT(refused(classes), HasSubstr("classes are told apart by cross_entropy"));
}

// What a user sees who goes on with another table.
TEST(Regressor, AResumeSaysWhatIsOtherThanBefore) {
  const std::string before =
      R"({"classes":[],"target":"price","columns":[{"name":"a","mean":1.5,"deviation":1},)"
      R"({"name":"b","categories":["x","y"]}],"number":{"mean":10.5,"deviation":2}})";
  Json record;
  record["learned"] = before;
  const auto refused = [&](const std::string& what, const std::string& with) {
    std::string now = before;
    now.replace(now.find(what), what.size(), with);
    return test::refusal_of([&] { train::check_learned(record, now, "csv:rows.csv"); });
  };
  EXPECT_THAT(refused(R"("price")", R"("rent")"),
              HasSubstr("the target is what the run has learned by: price (got rent)"));
  EXPECT_THAT(
      refused("10.5", "11.5"),
      HasSubstr("the mean and deviation of the target \"price\" is what the run has learned "
                "by: less 10.5, divided by 2 (got less 11.5, divided by 2)"));
  EXPECT_THAT(
      refused(R"({"name":"a","mean":1.5,"deviation":1},{"name":"b","categories":["x","y"]})",
              R"({"name":"b","categories":["x","y"]},{"name":"a","mean":1.5,"deviation":1})"),
      HasSubstr("the order of the columns is what the run has learned by: a, b (got b, a)"));
  EXPECT_THAT(refused(R"("a")", R"("c")"),
              HasSubstr("the list of columns is what the run has learned by: a, b (got c, b)"));
  EXPECT_THAT(refused(R"("mean":1.5)", R"("mean":2)"),
              HasSubstr("the column \"a\" is what the run has learned by: "
                        "{\"mean\":1.5,\"deviation\":1} (got {\"mean\":2,\"deviation\":1})"));
}

double determination_of(const std::vector<double>& answers, const std::vector<double>& targets) {
  double error = 0, mean = 0, square = 0;
  const auto count = static_cast<double>(targets.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    error += (targets[i] - answers[i]) * (targets[i] - answers[i]) / count;
    mean += targets[i] / count;
    square += targets[i] * targets[i] / count;
  }
  for (const train::Metric& metric : train::regressor_metrics())
    if (metric.name == "r2") return metric.formula(std::vector<double>{error, mean, square});
  return -1;
}

// As sklearn.metrics.r2_score.
TEST(Regressor, TheDeterminationOfTargetsThatAreAllTheSameIsOneOrNothing) {
  EXPECT_NEAR(determination_of({2.5, 0.0, 2, 8}, {3, -0.5, 2, 7}), 0.9486081370449679, 1e-12);
  EXPECT_EQ(determination_of({1, 2, 3}, {2, 2, 2}), 0);
  EXPECT_EQ(determination_of({0.1, 0.1, 0.1}, {0.1, 0.1, 0.1}), 1);
  EXPECT_NEAR(determination_of({3, 2, 1}, {1, 2, 3}), -3, 1e-12);
}

TEST(RegressionLoss, IsThatOfItsFormula) {
  const at::Tensor target = torch::tensor({0.0, 0.0, 0.0, 0.0});
  const at::Tensor predicted = torch::tensor({0.25, -0.5, 2.0, -4.0});
  const auto loss = [&](const char* text) {
    return train::regression_loss(predicted, target, train::parse_regression_loss(text, "--loss"))
        .item<double>();
  };
  EXPECT_NEAR(loss("mse"), (0.0625 + 0.25 + 4 + 16) / 4, 1e-6);
  EXPECT_NEAR(loss("l1"), 6.75 / 4, 1e-6);
  // Below beta x²/(2 beta), else |x| - beta/2.
  EXPECT_NEAR(loss("smooth_l1"), (0.03125 + 0.125 + 1.5 + 3.5) / 4, 1e-6);
  EXPECT_NEAR(loss("smooth_l1:beta=4"), (0.0625 / 8 + 0.25 / 8 + 4.0 / 8 + 2) / 4, 1e-6);
  // Below delta x²/2, else delta (|x| - delta/2).
  EXPECT_NEAR(loss("huber"), loss("smooth_l1"), 1e-7);
  EXPECT_NEAR(loss("huber:delta=4"), (0.03125 + 0.125 + 2 + 8) / 4, 1e-6);
}

}  // namespace
}  // namespace muster
