// --detect-anomaly: which operator's gradient is NaN.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/task/own_fit.h"

namespace muster::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// A finite loss, of which from a step on a gradient is not.
class RootOfNothing final : public Line {
 public:
  explicit RootOfNothing(int64_t from) : from_(from) {}
  StepResult train_step(const data::Batch& batch, const StepContext& context) override {
    StepResult result = Line::train_step(batch, context);
    if (context.phase != train::Phase::kTrain || context.step < from_) return result;
    const at::Tensor error = net_->forward(batch["x"]);
    result.loss = result.loss + 0 * (error - error).sqrt().sum();
    return result;
  }

 private:
  int64_t from_;
};

std::string error_with_anomalies(bool detect, const std::string& on_oom) {
  const Folder folder;
  FitOptions options = small_own();
  options.detect_anomaly = detect;
  options.on_oom = on_oom;
  return error_of([&] {
    run_own(options,
            1,
            {.train = numbers()},
            always([] { return std::make_unique<RootOfNothing>(2); }),
            folder.path());
  });
}

TEST(DetectAnomaly, NamesTheStepAndTheOperator) {
  for (const char* on_oom : {"fail", "split"}) {
    EXPECT_THAT(error_with_anomalies(true, on_oom),
                HasSubstr("task line, backward (step 3): Function 'SqrtBackward0' returned nan"));
    EXPECT_FALSE(torch::autograd::AnomalyMode::is_enabled()) << "it is over with the run";
    EXPECT_THAT(error_with_anomalies(false, on_oom), Not(HasSubstr("SqrtBackward0")));
  }
}

TEST(DetectAnomaly, ChangesNoNumber) {
  std::optional<OwnRun> plain;
  for (const bool detect : {false, true}) {
    const Folder folder;
    FitOptions options = small_own();
    options.detect_anomaly = detect;
    const OwnRun ran = run_own(options, 1, {.train = numbers()}, maker<Line>(), folder.path());
    if (!plain) plain = ran;
    EXPECT_TRUE(weight_of(ran.last, "weight").equal(weight_of(plain->last, "weight")));
  }
}

}  // namespace
}  // namespace muster::test
