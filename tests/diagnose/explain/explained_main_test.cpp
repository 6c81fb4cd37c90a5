// A program that explains its own end, in processes of their own.
#include "muster/diagnose/explain/explained_main.h"

#include <csignal>
#include <cstdlib>
#include <exception>
#include <functional>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::diagnose {
namespace {

using ::testing::AllOf;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;
using ::testing::KilledBySignal;
using ::testing::Not;

class ExplainedMain : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

[[noreturn]] void end_with(const std::function<int()>& program) {
  std::exit(explained_main(program));
}

TEST_F(ExplainedMain, ReturnsWhatTheProgramReturns) {
  EXPECT_EQ(explained_main([] { return 0; }), 0);
  EXPECT_EQ(explained_main([] { return 7; }), 7);
}

TEST_F(ExplainedMain, NamesCauseAndNextStepOfAKnownError) {
  const auto program = []() -> int {
    throw std::runtime_error(
        "Trying to backward through the graph a second time (or directly access saved tensors "
        "after they have already been freed).");
  };
  EXPECT_EXIT(end_with(program),
              ExitedWithCode(1),
              AllOf(HasSubstr("error: Trying to backward through the graph a second time"),
                    HasSubstr("\nfirst cause: "),
                    HasSubstr("\n  next step")));
}

TEST_F(ExplainedMain, SaysNoMoreThanTheErrorOfWhatNobodyKnows) {
  const auto program = []() -> int { throw std::runtime_error("the moon is not made of cheese"); };
  EXPECT_EXIT(
      end_with(program),
      ExitedWithCode(1),
      AllOf(HasSubstr("error: the moon is not made of cheese\n"), Not(HasSubstr("first cause"))));
}

TEST_F(ExplainedMain, AnErrorIsNotExplainedByWordsThatItHasInCommonWithOthers) {
  const auto program = []() -> int {
    throw std::runtime_error("found two devices, cpu and cuda:0!");
  };
  EXPECT_EXIT(end_with(program), ExitedWithCode(1), Not(HasSubstr("first cause")));
}

TEST_F(ExplainedMain, KeepsTheExitCodeOfWrongUse) {
  const auto program = []() -> int {
    throw usage_error({.refused = "--epochs", .rule = "at least 1", .value = "0"});
  };
  EXPECT_EXIT(end_with(program), ExitedWithCode(2), "error: --epochs: at least 1");
}

TEST_F(ExplainedMain, EndsInOrderWithWhatIsNoException) {
  EXPECT_EXIT(end_with([]() -> int { throw 3; }),
              ExitedWithCode(1),
              "error: something was thrown that is no std::exception");
}

TEST_F(ExplainedMain, ExplainsAlsoWhatEndsAnotherThread) {
  const auto program = [] {
    std::thread([] {
      throw std::runtime_error("CUDA error: device-side assert triggered");
    }).join();
    return 0;
  };
  EXPECT_EXIT(end_with(program),
              KilledBySignal(SIGABRT),
              AllOf(HasSubstr("error: CUDA error: device-side assert triggered"),
                    HasSubstr("first cause: ")));
}

TEST_F(ExplainedMain, LeavesTheHandlerThatWasThere) {
  const std::terminate_handler before = std::get_terminate();
  explained_main([] { return 0; });
  EXPECT_EQ(std::get_terminate(), before);
}

}  // namespace
}  // namespace muster::diagnose
