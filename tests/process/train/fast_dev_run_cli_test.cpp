// `muster train --fast-dev-run` and limits as a user says them.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"

#include "tests/process/train/train_words.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_process::Launched;

TEST(FastDevRunCommand, TrainsValidatesAndTestsAndKeepsNoFile) {
  for (const int ranks : {1, 2}) {
    const test::Folder folder;
    const fs::path scratch = folder.path() / "tmp", output = folder.path() / "out";
    fs::create_directory(scratch);
    const test::Words words =
        test::train_uneven({"--fast-dev-run", "--epochs", "9", "--output", output});
    Launched program(ranks == 1 ? words : test::on_ranks(ranks, words),
                     {.environment = {concat("TMPDIR=", scratch.string())}});
    EXPECT_EQ(program.wait(std::chrono::seconds(60)).code, 0) << program.err();
    EXPECT_THAT(program.out(), HasSubstr("test accuracy "));
    EXPECT_THAT(program.err(), HasSubstr("epoch 1/1: loss"));
    EXPECT_THAT(program.err(), HasSubstr("validation loss"));
    EXPECT_THAT(program.err(), HasSubstr(concat("; its folder ", scratch.string())));
    EXPECT_FALSE(fs::exists(output));
    EXPECT_TRUE(fs::is_empty(scratch));
  }
}

TEST(FastDevRunCommand, IsRefusedWithAResume) {
  const test::Folder folder;
  Launched program(
      test::train_uneven({"--fast-dev-run", "--output", folder.path(), "--resume", "auto"}));
  EXPECT_EQ(program.wait(std::chrono::seconds(60)).code, 2);
  EXPECT_THAT(program.err(), HasSubstr("--fast-dev-run with --resume"));
}

TEST(LimitsCommand, ARunWithoutATestEndsWithoutALine) {
  const test::Folder folder;
  Launched program(test::train_uneven({"--output",
                                       folder.path() / "out",
                                       "--limit-train-batches",
                                       "2",
                                       "--limit-test-batches",
                                       "0",
                                       "--json"}));
  EXPECT_EQ(program.wait(std::chrono::seconds(60)).code, 0) << program.err();
  EXPECT_THAT(program.out(), Not(HasSubstr("test_accuracy")));
  EXPECT_THAT(program.out(), HasSubstr("\"steps\":10"));
}

}  // namespace
}  // namespace muster
