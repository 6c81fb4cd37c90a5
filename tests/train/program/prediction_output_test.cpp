// Where predictions go.
#include "muster/train/program/prediction_output.h"

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "muster/base/file.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::train {
namespace {

namespace fs = std::filesystem;

TEST(PredictionOutput, IsAFileThatAppearsAsAWholeOrAStream) {
  const test::Folder folder;
  const fs::path file = folder.path() / "out.csv";
  std::ostringstream out;
  {
    PredictionOutput output(file, out);
    output.write("a\n");
    EXPECT_FALSE(fs::exists(file));
    output.write("b\n");
    output.commit();
  }
  EXPECT_EQ(read_file(file), "a\nb\n");
  EXPECT_EQ(out.str(), "");
  PredictionOutput stream("-", out);
  stream.write("c\n");
  EXPECT_EQ(out.str(), "c\n");
  EXPECT_THAT(test::error_of([&] { PredictionOutput(folder.path(), out); }),
              ::testing::HasSubstr("it is a folder, not a file"));
  EXPECT_THAT(test::error_of([&] { PredictionOutput("", out); }),
              ::testing::HasSubstr("the name of a file"));
}

TEST(PredictionOutput, OfAProcessThatASignalStopsIsNothing) {
  const test::Folder folder;
  std::ostringstream out;
  const auto stopped = [&] {
    watch_prediction_signals();
    PredictionOutput output(folder.path() / "out.csv", out);
    output.write("a\n");
    ::raise(SIGINT);
    try {
      output.write("b\n");
    } catch (const PredictionStopped&) {
      return 3;
    }
    return 0;
  };
  EXPECT_EXIT(::_exit(stopped()), ::testing::ExitedWithCode(3), "");
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace muster::train
