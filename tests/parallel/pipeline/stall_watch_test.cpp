// Who is named for a stall, by times that the test gives.
#include "muster/parallel/pipeline/stall_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace muster::parallel {
namespace {

using namespace std::chrono_literals;
using pipeline::Action;
using pipeline::ActionKind;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Action kForward{.kind = ActionKind::kForward, .stage = 1};
constexpr Action kReceive{.kind = ActionKind::kReceiveActivation, .stage = 1};
constexpr Action kOther{.kind = ActionKind::kReceiveGradient, .stage = 0};

/// Two ranks with a timeout of 100 ms, looked at each 20 ms unless it is said otherwise.
class Watched {
 public:
  /// `rank` is at `action` from now on; null: it has ended.
  void set(size_t rank, const Action* action) { ranks_[rank] = {true, action, now_}; }
  /// "" while nobody is named.
  std::string after(std::chrono::milliseconds time, std::chrono::milliseconds step = 20ms) {
    for (const auto end = now_ + time; now_ < end;) {
      now_ += step;
      if (const std::exception_ptr error = watch_.look(ranks_, now_))
        return test::error_of([&] { std::rethrow_exception(error); });
    }
    return "";
  }

 private:
  StallWatch::Clock::time_point now_{1h};
  std::vector<StallWatch::Spot> ranks_{2};
  StallWatch watch_{{c10::kCPU, c10::kCPU}, 100ms, 50ms};
};

TEST(StallWatch, NamesTheActionThatLastsTooLongAndNotWhoWaitsForIt) {
  Watched step;
  step.set(0, &kOther);
  step.set(1, &kForward);
  EXPECT_EQ(step.after(100ms), "");
  EXPECT_THAT(step.after(60ms), HasSubstr("rank 1 (cpu): forward of stage 1, micro-batch 0"));
}

TEST(StallWatch, NamesAReceiveWhereAllWait) {
  Watched step;
  step.set(0, &kOther);
  EXPECT_EQ(step.after(60ms), "");
  step.set(1, &kReceive);
  EXPECT_THAT(step.after(200ms),
              AllOf(HasSubstr("rank 0 (cpu): "), HasSubstr("(0RECV_B0): a stall")));
}

TEST(StallWatch, NamesARankThatDoesNotBeginAndNotWhoWaitsForIt) {
  Watched step;
  step.set(1, &kReceive);
  EXPECT_EQ(step.after(100ms), "");
  EXPECT_THAT(step.after(60ms),
              HasSubstr("rank 0 (cpu): its first action: a stall: it has not begun within 100 ms"));
}

TEST(StallWatch, CountsEachActionAnewAndNobodyWhoHasEnded) {
  Watched step;
  step.set(0, nullptr);
  for (int i = 0; i < 10; ++i) {
    step.set(1, i % 2 == 0 ? &kReceive : &kForward);
    EXPECT_EQ(step.after(80ms), "");
  }
  EXPECT_NE(step.after(200ms), "");
}

TEST(StallWatch, APauseBetweenTwoLooksIsNoStall) {
  Watched step;
  step.set(0, nullptr);
  step.set(1, &kForward);
  EXPECT_EQ(step.after(20ms), "");
  EXPECT_EQ(step.after(10min, 10min), "");  // 50 ms of it count
  EXPECT_EQ(step.after(10min, 10min), "");  // and of the second
  EXPECT_NE(step.after(40ms), "");
}

}  // namespace
}  // namespace muster::parallel
