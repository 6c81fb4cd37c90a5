// `muster train --trace` as a user runs it: what it costs to ask wrongly, and that nothing is lost.
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "muster/base/file.h"
#include "muster/base/json.h"

#include "tests/process/train/train_words.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::Words;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_process::Launched;

constexpr std::chrono::seconds kTraceLimit{180};

/// On two ranks, 12 steps an epoch.
Words train_traced(const Words& more) {
  return test::on_ranks(
      2,
      test::joined(
          test::train_words(
              "synthetic:samples=210,test_samples=60,size=8,classes=4", "16", {"--workers", "0"}),
          more));
}

/// Until it is told to end; its trace goes to a folder of its own.
Words train_long(const fs::path& output, const fs::path& trace_folder, Words more) {
  const Words rest{"--output", output, "--epochs", "100000", "--trace", trace_folder / "t.json"};
  more.insert(more.end(), rest.begin(), rest.end());
  more.insert(more.end(), {"--trace-steps", "10000"});
  return train_traced(more);
}

TEST(TraceCommand, RecordsAHundredStepsAfterTheFirstTenUnlessToldOtherwise) {
  const test::Folder folder;
  const fs::path output = folder.path() / "out", trace = folder.path() / "new" / "t.json";
  Launched program(
      train_traced({"--output", output, "--trace", trace, "--max-steps", "130", "--epochs", "20"}));
  EXPECT_EQ(program.wait(kTraceLimit).code, 0) << program.err();
  EXPECT_THAT(program.err(), HasSubstr("% overlap: data "));
  const Json events = parse_json(read_file(trace), "trace").at("traceEvents");
  std::map<int, std::vector<std::string>> steps;
  for (const Json& event : events) {
    if (event.value("cat", "") == "step") steps[event.at("pid")].push_back(event.at("name"));
  }
  ASSERT_EQ(steps.size(), 2U);
  for (const auto& [rank, names] : steps) {
    EXPECT_EQ(names.front(), "step 10") << rank;
    EXPECT_EQ(names.back(), "step 109") << rank;
    EXPECT_EQ(names.size(), 100U) << rank;
  }
}

TEST(TraceCommand, ANumberOfStepsOutOfRangeIsOneClearError) {
  const test::Folder folder;
  for (const char* steps : {"-3", "0", "10001"}) {
    Launched program({"train",
                      "--data",
                      "synthetic:samples=20",
                      "--output",
                      folder.path() / "out",
                      "--trace",
                      folder.path() / "t.json",
                      "--trace-steps",
                      steps});
    EXPECT_EQ(program.wait(kTraceLimit).code, 2);
    EXPECT_THAT(program.err(),
                HasSubstr(std::string("--trace-steps: 1 to 10000 steps (got ") + steps + ")"));
    EXPECT_FALSE(fs::exists(folder.path() / "out")) << "nothing has begun";
  }
}

TEST(TraceCommand, AFolderThatCannotBeIsOneClearErrorAtTheStart) {
  const test::Folder folder;
  write_file_atomic(folder.path() / "file", "");
  Launched program(train_traced(
      {"--output", folder.path() / "out", "--trace", folder.path() / "file" / "t.json"}));
  EXPECT_EQ(program.wait(kTraceLimit).code, 1);
  EXPECT_THAT(program.err(), HasSubstr("folder of --trace"));
  EXPECT_THAT(program.err(), Not(HasSubstr("[1] error")));
  EXPECT_FALSE(fs::exists(folder.path() / "out")) << "nothing has begun";
  EXPECT_TRUE(program.nothing_left());
}

TEST(TraceCommand, AFileThatCannotBeWrittenAfterCtrlCLosesNothing) {
  const test::Folder folder;
  const fs::path output = folder.path() / "out", gone = folder.path() / "gone";
  Launched program(train_long(output, gone, {"--log-every", "1"}));
  ASSERT_TRUE(program.wait_for("epoch 2/")) << program.err();
  fs::remove_all(gone);
  program.signal(SIGINT);
  EXPECT_EQ(program.wait(kTraceLimit).code, 130) << program.err();
  EXPECT_THAT(program.err(),
              AllOf(HasSubstr("; the trace was not written: "),
                    HasSubstr((gone / "t.json").string()),
                    HasSubstr("interrupted after step"),
                    HasSubstr("saved in ")));
  EXPECT_TRUE(program.nothing_left());
  Launched resumed({"train", "--resume", output, "--max-steps", test::latest_step(output)});
  EXPECT_EQ(resumed.wait(kTraceLimit).code, 0) << resumed.err();
}

TEST(TraceCommand, AFileThatCannotBeWrittenAtTheEndLeavesTheResult) {
  const test::Folder folder;
  const fs::path output = folder.path() / "out", gone = folder.path() / "gone";
  // Long enough that the folder is gone before the end, however late this process comes.
  Launched program(train_long(output, gone, {"--max-steps", "2400"}));
  ASSERT_TRUE(program.wait_for("epoch 2/")) << program.err();
  fs::remove_all(gone);
  EXPECT_EQ(program.wait(kTraceLimit).code, 0) << program.err();
  EXPECT_THAT(program.err(), HasSubstr("; the trace was not written: "));
  EXPECT_THAT(program.out(), HasSubstr("test accuracy"));
  EXPECT_TRUE(fs::exists(output / "checkpoints" / "step-2400"));
}

}  // namespace
}  // namespace muster
