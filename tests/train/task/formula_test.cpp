// Tasks with metrics that are made of others.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/task/own_fit.h"

namespace muster::test {
namespace {

using ::testing::HasSubstr;

double formula_root(std::span<const double> values) { return std::sqrt(values[0]); }

/// The root of a mean square, or what a test makes of the list.
class Rooted final : public Line {
 public:
  explicit Rooted(std::vector<Metric> list, std::string reports = "square")
      : list_(std::move(list)), reports_(std::move(reports)) {}
  std::vector<Metric> metrics() const override { return list_; }
  StepResult train_step(const data::Batch& batch, const StepContext& context) override {
    StepResult result = Line::train_step(batch, context);
    result.values = {{reports_, batch["x"].select(1, 0).square().sum(), {}}};
    return result;
  }

 private:
  std::vector<Metric> list_;
  std::string reports_;
};

std::vector<Metric> rooted_metrics() {
  return {{.name = "root", .wants_less = true, .of = {"square"}, .formula = &formula_root},
          {.name = "square", .is_hidden = true}};
}

std::string rooted_error(const std::vector<Metric>& list, const std::string& reports = "square") {
  const Folder folder;
  return error_of([&] {
    run_own(small_own(),
            1,
            {.train = numbers()},
            always([&] { return std::make_unique<Rooted>(list, reports); }),
            folder.path(),
            list);
  });
}

TEST(FormulaMetrics, AreOfAllSamplesOnAnyNumberOfRanks) {
  const auto test_set = numbers(19);  // no equal shares
  std::vector<int64_t> all(19);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  const at::Tensor x = test_set->get(all)["x"].select(1, 0);
  FitOptions options = small_own();
  options.monitor = "validate_root";
  for (const int world : {1, 2, 4}) {
    const Folder folder;
    const auto ran = run_own(options,
                             world,
                             {.train = numbers(), .validation = numbers(7), .test = test_set},
                             always([] { return std::make_unique<Rooted>(rooted_metrics()); }),
                             folder.path(),
                             rooted_metrics());
    const train::Metrics& seen = ran.result.test.metrics;
    EXPECT_NEAR(seen["root"], std::sqrt(x.square().mean().item<double>()), 1e-6) << world;
    EXPECT_EQ(seen.find("square"), nullptr);
  }
}

TEST(FormulaMetrics, AreRefusedWhereTheyAreNotMadeOfWhatStepsReport) {
  EXPECT_EQ(rooted_error(rooted_metrics()), kNoError);
  EXPECT_THAT(rooted_error(rooted_metrics(), "root"),
              HasSubstr("it is one of metrics() that steps report: square"));
  std::vector<Metric> list = rooted_metrics();
  list[0].of = {"cube"};
  EXPECT_THAT(rooted_error(list), HasSubstr("it is made of metrics that steps report (got cube)"));
  list[0].of = {"root"};
  EXPECT_THAT(rooted_error(list), HasSubstr("it is made of metrics that steps report (got root)"));
  list[0].formula = nullptr;
  EXPECT_THAT(rooted_error(list), HasSubstr("what is made of others has a formula"));
}

TEST(FormulaMetrics, NoEpochIsJudgedByAHiddenOne) {
  FitOptions options = small_own();
  options.monitor = "validate_square";
  EXPECT_THAT(error_of([&] {
                planned(
                    options, 1, {.train = numbers(), .validation = numbers(7)}, rooted_metrics());
              }),
              HasSubstr("validate_root or validate_loss"));
}

}  // namespace
}  // namespace muster::test
