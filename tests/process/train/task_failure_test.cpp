// What the code of a task throws on one rank, as every rank of the job tells it.
#include <chrono>
#include <string>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"

#include "tests/process/train/train_words.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using testing_process::Launched;

constexpr std::chrono::seconds kJobLimit(90);

/// Where it fails, and what is said of it: %R is the rank.
struct Failure {
  std::string at, says;
};

class TaskThatFailsOnOneRank
    : public ::testing::TestWithParam<std::tuple<Failure, std::string, int>> {};

TEST_P(TaskThatFailsOnOneRank, IsNamedWithItsStepAndItsErrorByAllRanks) {
  const auto& [failure, backend, culprit] = GetParam();
  const test::Folder folder;
  Launched job({"run",
                "--nproc-per-node",
                "2",
                "--shutdown-timeout",
                "20",
                "--",
                test::program_path("muster_failing_task"),
                "--backend",
                backend,
                "--at",
                failure.at,
                "--on",
                std::to_string(culprit),
                "--output",
                (folder.path() / "run").string()});
  const auto ended = job.wait(kJobLimit);
  EXPECT_NE(ended.code, 0) << job.err();
  std::string says = failure.says;
  says.replace(says.find("%R"), 2, concat("rank ", culprit));
  EXPECT_THAT(stderr_of(job, culprit), HasSubstr("failing: error: " + says));
  EXPECT_THAT(stderr_of(job, 1 - culprit), HasSubstr(concat("rank ", culprit, " failed: ", says)));
}

INSTANTIATE_TEST_SUITE_P(
    Everywhere,
    TaskThatFailsOnOneRank,
    ::testing::Combine(
        ::testing::Values(
            Failure{"maker", "the task's maker (%R, before the first step): no more maker"},
            Failure{"sample", "task failing, the samples (%R, step "},
            Failure{"train_step", "task failing, train_step (%R, step 3): no more train_step"},
            Failure{"loss",
                    "task failing, train_step (%R, step 3): the loss of a step: it depends"},
            Failure{"metric", "task failing, train_step (%R, step 3): metric eror: it is one of"},
            Failure{"evaluate_step",
                    "task failing, evaluate_step (%R, validation after step 4): no more"}),
        ::testing::Values("gloo", "shm"),
        ::testing::Values(0, 1)),
    [](const auto& info) {
      return concat(std::get<0>(info.param).at,
                    '_',
                    std::get<1>(info.param),
                    "_rank",
                    std::get<2>(info.param));
    });

TEST(TaskWhoseSampleNeverComes, EndsAfterTheLoadersTimeoutOnAllRanks) {
  const test::Folder folder;
  Launched job({"run",
                "--nproc-per-node",
                "2",
                "--",
                test::program_path("muster_failing_task"),
                "--at",
                "never",
                "--workers",
                "1",
                "--loader-timeout",
                "10",
                "--output",
                (folder.path() / "run").string()});
  const auto ended = job.wait(kJobLimit);
  EXPECT_EQ(ended.code, 1) << job.err();
  EXPECT_THAT(stderr_of(job, 1),
              HasSubstr("a worker makes it within 10 s; still in hand: one of the samples "));
  EXPECT_THAT(stderr_of(job, 0), HasSubstr("rank 1 failed: "));
}

TEST(TaskWhoseGradientIsNaN, EndsWithTheNameOfTheOperatorWhereAnomaliesAreDetected) {
  const test::Folder folder;
  const auto started = [&](const std::string& name, const test::Words& more) {
    return test::joined({"run",
                         "--nproc-per-node",
                         "2",
                         "--",
                         test::program_path("muster_failing_task"),
                         "--at",
                         "gradient",
                         "--output",
                         (folder.path() / name).string()},
                        more);
  };
  Launched found(started("found", {"--detect-anomaly"}));
  EXPECT_EQ(found.wait(kJobLimit).code, 1) << found.err();
  const std::string says =
      "task failing, backward (rank 1, step 3): Function 'SqrtBackward0' returned nan";
  EXPECT_THAT(stderr_of(found, 1), HasSubstr("failing: error: " + says));
  EXPECT_THAT(stderr_of(found, 0), HasSubstr("rank 1 failed: " + says));
  Launched plain(started("plain", {}));
  EXPECT_EQ(plain.wait(kJobLimit).code, 1) << plain.err();
  EXPECT_THAT(stderr_of(plain, 1), ::testing::Not(HasSubstr("SqrtBackward0")));
}

}  // namespace
}  // namespace muster
