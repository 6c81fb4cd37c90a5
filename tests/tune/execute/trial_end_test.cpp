// Which class an end is of, and in which words.
#include "muster/tune/execute/trial_end.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include "muster/tune/execute/trial_log.h"

#include "tests/support/folder.h"

namespace muster::tune {
namespace {

using ::testing::HasSubstr;

int exited(int code) { return W_EXITCODE(code, 0); }
int killed(int signal) { return W_EXITCODE(0, signal); }

TEST(EndOfATrial, IsGoodByItselfAndAfterAStop) {
  EXPECT_EQ(judge({}).failure, Failure::kNone);
  EXPECT_EQ(judge({.wait_status = exited(3), .asked = true}).failure, Failure::kNone);
  EXPECT_EQ(judge({.wait_status = killed(SIGKILL), .asked = true, .kernel_killed = true}).failure,
            Failure::kNone);
}

TEST(EndOfATrial, AGoodOneSaysWhyItsLastReportWasNone) {
  EXPECT_EQ(judge({.bad_line = "a line on stdout is no report: why"}).message,
            "exit code 0; a line on stdout is no report: why");
}

TEST(EndOfATrial, ACrashHasTheLastWords) {
  const Judgement judgement =
      judge({.wait_status = exited(1), .last_lines = {"Traceback", "  KeyError: 'lr'  ", "", " "}});
  EXPECT_EQ(judgement.failure, Failure::kCrash);
  EXPECT_EQ(judgement.message, "exit code 1: KeyError: 'lr'");
  EXPECT_EQ(judge({.wait_status = exited(1)}).message, "exit code 1");
}

TEST(EndOfATrial, SigkillIsMemoryOnlyIfTheKernelCountsOne) {
  for (const int status : {killed(SIGKILL), exited(137)}) {
    EXPECT_EQ(judge({.wait_status = status}).failure, Failure::kCrash);
    EXPECT_EQ(judge({.wait_status = status, .kernel_killed = true}).failure, Failure::kOutOfMemory);
  }
  EXPECT_EQ(judge({.wait_status = exited(1), .kernel_killed = true}).failure, Failure::kCrash);
}

// Last lines of real programs.
TEST(EndOfATrial, MemoryIsNamedByManyPrograms) {
  for (const char* line :
       {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.",
        "RuntimeError: CUDA error: out of memory",
        "MemoryError",
        "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 7.28 TiB for an array",
        "  what():  std::bad_alloc",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't "
        "allocate memory",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying",
        "OSError: [Errno 12] Cannot allocate memory"}) {
    EXPECT_TRUE(speaks_of_memory(line)) << line;
    const Judgement judgement = judge({.wait_status = exited(1), .last_lines = {line, "bye"}});
    EXPECT_EQ(judgement.failure, Failure::kOutOfMemory);
    EXPECT_THAT(judgement.message, HasSubstr(std::string_view(line).substr(3)));
  }
  EXPECT_FALSE(speaks_of_memory("ValueError: memory_size must be positive"));
}

TEST(EndOfATrial, WhatTheTunerFoundComesFirst) {
  EXPECT_EQ(
      judge({.wait_status = killed(SIGTERM), .failure = Failure::kTimeout, .why = "no report"})
          .message,
      "no report");
  EXPECT_EQ(
      judge({.wait_status = exited(1), .failure = Failure::kNan, .why = "loss is nan"}).failure,
      Failure::kNan);
  EXPECT_EQ(judge({.lost = true}).failure, Failure::kLost);
  EXPECT_EQ(judge({.not_started = "cannot run x"}).failure, Failure::kCrash);
}

TEST(EndOfATrial, TheProgramsOwnWordCountsIfItFailed) {
  const FailureLine said{Failure::kOutOfMemory, "batch 512"};
  EXPECT_EQ(judge({.wait_status = exited(2), .said = said}).message, "exit code 2: batch 512");
  EXPECT_EQ(judge({.wait_status = exited(2), .said = said}).failure, Failure::kOutOfMemory);
  EXPECT_EQ(judge({.wait_status = 0, .said = said}).failure, Failure::kNone);
}

TEST(OomCounterTest, GivesEachKillToOneAttempt) {
  const test::Folder folder;
  const auto write = [&](int kills) {
    std::filesystem::create_directories(folder.path() / "proc");
    std::ofstream(folder.path() / "proc/vmstat") << "oom_kill " << kills << "\n";
  };
  write(3);
  OomCounter counter(folder.path());
  const int64_t first = counter.read();
  EXPECT_FALSE(counter.take(first));
  write(5);
  EXPECT_TRUE(counter.take(first));
  EXPECT_TRUE(counter.take(first));
  EXPECT_FALSE(counter.take(first));
  write(6);  // somebody else's, before the next attempt starts
  EXPECT_FALSE(counter.take(counter.read()));
}

TEST(TrialLogTest, KeepsTheNewestBytes) {
  const test::Folder folder;
  TrialLog log(folder.path() / "out.log", 10);
  EXPECT_EQ(log.write("12345\n"), "");
  EXPECT_EQ(log.write("6789\n"), "");
  EXPECT_EQ(log.write("abcdefgh\n"), "");
  const auto text = [&](const char* name) {
    std::ostringstream out;
    out << std::ifstream(folder.path() / name).rdbuf();
    return out.str();
  };
  EXPECT_EQ(text("out.log"), "abcdefgh\n");
  EXPECT_EQ(text("out.log.1"), "6789\n");
}

TEST(TrialLogTest, SaysOnceThatItCannotBeWritten) {
  TrialLog log("/nowhere/out.log");
  EXPECT_THAT(log.write("x"), HasSubstr("/nowhere/out.log"));
  EXPECT_EQ(log.write("x"), "");
}

}  // namespace
}  // namespace muster::tune
