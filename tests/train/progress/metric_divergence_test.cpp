// Metrics of a task that are no numbers.
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/testing/run_ranks.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/task/own_fit.h"

namespace muster {
namespace {

using test::kBatch;
using test::numbers;
using ::testing::HasSubstr;
using train::Phase;
using train::Reduce;

/// What a step says of its metric: a value, and the samples that it is of.
struct Said {
  double value = 1;
  std::optional<double> weight;
};
using Say = std::function<Said(int rank, const train::StepContext&)>;

class Odd final : public test::Line {
 public:
  Odd(int rank, Reduce reduce, const Say& say) : rank_(rank), reduce_(reduce), say_(say) {}

  std::vector<train::Metric> metrics() const override {
    return {{.name = "odd", .reduce = reduce_}};
  }
  train::StepResult train_step(const data::Batch& batch, const train::StepContext& at) override {
    train::StepResult result = Line::train_step(batch, at);
    const Said said = say_(rank_, at);
    result.values = {{"odd", torch::tensor(said.value, torch::kDouble), said.weight}};
    return result;
  }

 private:
  int rank_;
  Reduce reduce_;
  const Say& say_;
};

/// 24 samples, 8 a step: three steps an epoch, of two.
train::FitData three_splits() {
  return {.train = numbers(), .validation = numbers(kBatch), .test = numbers(kBatch)};
}

/// The error that two ranks end with, alike; empty: they end well.
std::string error_of_run(train::FitOptions options,
                         Reduce reduce,
                         const Say& say,
                         const std::filesystem::path& output) {
  const train::FitData data = three_splits();
  const std::vector<train::Metric> metrics{{.name = "odd", .reduce = reduce}};
  std::vector<std::string> errors(2);
  testing::run_ranks(2, [&](const distributed::ProcessGroup& group) {
    const int rank = group.rank();
    try {
      train::fit({.task = [&] { return std::make_unique<Odd>(rank, reduce, say); },
                  .data = data,
                  .plan = test::planned(options, 2, data, metrics),
                  .output = output},
                 group);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
      errors[static_cast<size_t>(rank)] = error.what();
    }
  });
  EXPECT_EQ(errors[0], errors[1]);
  return errors[0];
}

class MetricThatIsNan : public ::testing::TestWithParam<Reduce> {};

TEST_P(MetricThatIsNan, OnOneRankInOneStepEndsTheRunOnAllRanksBeforeThatStep) {
  const test::Folder folder;
  const Say say = [](int rank, const train::StepContext& at) {
    return Said{rank == 1 && at.phase == Phase::kTrain && at.step == 4 ? std::nan("") : 1.0, {}};
  };
  const std::string error = error_of_run(test::small_own(), GetParam(), say, folder.path());
  EXPECT_THAT(error, HasSubstr("metric odd is not finite in step 5 (epoch 2)"));
  EXPECT_THAT(error, HasSubstr("(got nan)"));
  EXPECT_THAT(error, HasSubstr("with the weight 0; the checkpoint of step 3 is intact"));
  EXPECT_EQ(read_file(folder.path() / "latest"), "step-3\n");
  EXPECT_THAT(read_file(folder.path() / "index.html"), HasSubstr("failed after 4 steps"));
}

TEST_P(MetricThatIsNan, InTheValidationEndsTheRunWhoeverIsMonitored) {
  for (const char* monitor : {"validate_odd", "validate_loss"}) {
    const test::Folder folder;
    const Say say = [](int rank, const train::StepContext& at) {
      return Said{rank == 0 && at.phase == Phase::kValidate ? std::nan("") : 1.0, {}};
    };
    train::FitOptions options = test::small_own();
    options.monitor = monitor;
    options.test_weights = "best";
    const std::string error = error_of_run(options, GetParam(), say, folder.path());
    EXPECT_THAT(error,
                HasSubstr("the validation's metric odd is not finite after step 3 (epoch 1)"));
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "best"));
  }
}

TEST_P(MetricThatIsNan, InTheTestEndsTheRunWithItsStateSaved) {
  const test::Folder folder;
  const Say say = [](int, const train::StepContext& at) {
    return Said{at.phase == Phase::kTest ? std::nan("") : 1.0, {}};
  };
  const std::string error = error_of_run(test::small_own(), GetParam(), say, folder.path());
  EXPECT_THAT(error, HasSubstr("the test's metric odd is not finite after step 6 (epoch 2)"));
  EXPECT_EQ(read_file(folder.path() / "latest"), "step-6\n");
}

TEST_P(MetricThatIsNan, IsNothingWhereItIsOfNothing) {
  const test::Folder folder;
  const Say say = [](int rank, const train::StepContext& at) {
    return (rank + at.step) % 2 == 0 ? Said{std::nan(""), 0.0} : Said{2, 2.0};
  };
  EXPECT_EQ(error_of_run(test::small_own(), GetParam(), say, folder.path()), "");
  EXPECT_THAT(read_file(folder.path() / "metrics.csv"), Not(HasSubstr("nan")));
}

INSTANTIATE_TEST_SUITE_P(Reduces,
                         MetricThatIsNan,
                         ::testing::Values(Reduce::kMean, Reduce::kSum, Reduce::kMin, Reduce::kMax),
                         [](const auto& info) { return std::string(train::name_of(info.param)); });

// Perplexity, say: a number that is too large is an answer, but one by which no epoch can be judged.
TEST(MetricThatIsInfinite, EndsTheRunWhereItIsMonitored) {
  const Say say = [](int, const train::StepContext& at) {
    return Said{at.phase == Phase::kValidate ? HUGE_VAL : 1.0, {}};
  };
  train::FitOptions options = test::small_own();
  const test::Folder folder;
  EXPECT_EQ(error_of_run(options, Reduce::kMean, say, folder.path() / "a"), "");
  options.monitor = "validate_odd";
  const std::string error = error_of_run(options, Reduce::kMean, say, folder.path() / "b");
  EXPECT_THAT(error, HasSubstr("the validation's metric odd is not finite after step 3 (epoch 1)"));
  EXPECT_THAT(error, HasSubstr("(got inf)"));
  EXPECT_THAT(error, HasSubstr("try a smaller --lr"));
}

}  // namespace
}  // namespace muster
