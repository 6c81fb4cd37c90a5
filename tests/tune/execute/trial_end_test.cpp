// Which class an end is of, and in which words.
#include "muster/tune/execute/trial_end.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include "muster/base/file.h"
#include "muster/base/text.h"
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

LastWords words_of(const std::string& text) {
  LastWords words;
  for (const std::string& line : split(text, '\n')) words.add(line);
  return words;
}

std::string said_by(const std::string& text) { return std::string(words_of(text).text()); }

TEST(EndOfATrial, ACrashHasTheLastWords) {
  const Judgement judgement =
      judge({.wait_status = exited(1), .words = words_of("it begins\n  KeyError: 'lr'  \n\n ")});
  EXPECT_EQ(judgement.failure, Failure::kCrash);
  EXPECT_EQ(judgement.message, "exit code 1: KeyError: 'lr'");
  EXPECT_EQ(judge({.wait_status = exited(1)}).message, "exit code 1");
}

TEST(LastWordsTest, AnErrorIsItsFirstLineAndNoHint) {
  const std::string error = "a metric cannot be read: it is written name=number (got loss)";
  EXPECT_EQ(said_by("muster: error: " + error + "\nhint: muster report step=1 loss=0.31"), error);
  EXPECT_EQ(said_by("muster: error: " + error + "\nhint: one of\n  a\n  b"), error);
  EXPECT_EQ(said_by("muster: error: the space differs\n- lr: uniform(0, 1)\n+ lr: uniform(0, 2)"),
            "the space differs");
  EXPECT_EQ(said_by("my_trainer: error: no such layer\nhint: conv1"),
            "my_trainer: error: no such layer");
  EXPECT_EQ(said_by("usage: train.py [-h] --lr LR\n"
                    "train.py: error: the following arguments are required: --lr"),
            "train.py: error: the following arguments are required: --lr");
}

TEST(LastWordsTest, AnErrorOfJsonIsItsText) {
  EXPECT_EQ(said_by(R"({"error":{"hint":"look","kind":"usage","refused":"--lr","rule":"above 0",)"
                    R"("text":"--lr: above 0 (got 0)\nhint: look","value":"0"}})"),
            "--lr: above 0 (got 0)");
  EXPECT_EQ(said_by(R"({"error": 3})"), R"({"error": 3})");
  EXPECT_EQ(said_by(R"({"error": )"), R"({"error":)");
}

// What Python 3.11 and PyTorch 2.15 wrote.
TEST(LastWordsTest, ATracebackIsItsExceptionsFirstLine) {
  EXPECT_EQ(said_by("Traceback (most recent call last):\n"
                    "  File \"t.py\", line 3, in <module>\n"
                    "    net.load_state_dict({})\n"
                    "    ~~~~~~~~~~~~~~~~~~~^^^^\n"
                    "RuntimeError: Error(s) in loading state_dict for Linear:\n"
                    "\tMissing key(s) in state_dict: \"weight\", \"bias\". "),
            "RuntimeError: Error(s) in loading state_dict for Linear:");
  EXPECT_EQ(said_by("Traceback (most recent call last):\n"
                    "  File \"t.py\", line 2, in <module>\n"
                    "ZeroDivisionError: division by zero\n"
                    "\n"
                    "During handling of the above exception, another exception occurred:\n"
                    "\n"
                    "Traceback (most recent call last):\n"
                    "  File \"t.py\", line 4, in <module>\n"
                    "ValueError: batch\nof two lines"),
            "ValueError: batch");
}

TEST(LastWordsTest, AnUncaughtExceptionIsItsWhat) {
  EXPECT_EQ(said_by("terminate called after throwing an instance of 'c10::Error'\n"
                    "  what():  shapes do not match\n"
                    "Exception raised from add at Add.cpp:3 (most recent call first):\n"
                    "frame #0: c10::Error::Error + 0x8f (0x7f in libc10.so)\n"
                    "\n"
                    "Aborted (core dumped)"),
            "what():  shapes do not match");
}

// As `muster run` prints what its ranks say and why it ends.
TEST(LastWordsTest, AJobsErrorIsThatOfTheRankThatFailed) {
  EXPECT_EQ(said_by("[0] epoch 1\n"
                    "[1] error: the loss is not finite in step 5\n"
                    "[1] hint: a smaller --lr\n"
                    "muster: error: rank 1 (pid 4711) failed: exit code 1\n"
                    "its last lines:\n"
                    "  | error: the loss is not finite in step 5\n"
                    "  | hint: a smaller --lr\n"
                    "log: /tmp/logs/1/stderr.log\n"
                    "hint: see its log"),
            "error: the loss is not finite in step 5");
}

TEST(LastWordsTest, AnErrorThatWasBorneGivesWayToWhatCameLater) {
  EXPECT_EQ(said_by("muster: error: no such file: a\nhint: b\nretrying\nt.sh: 3: train: not found"),
            "t.sh: 3: train: not found");
  EXPECT_EQ(said_by("muster: error: first\nhint: a\nmuster: error: second\nhint: b"), "second");
}

TEST(LastWordsTest, AdviceAloneIsBetterThanNothing) {
  EXPECT_EQ(said_by("hint: more memory"), "hint: more memory");
  EXPECT_EQ(
      said_by("thread 'main' panicked at src/main.rs:2:5:\nno layer\n"
              "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace"),
      "no layer");
}

TEST(LastWordsTest, KeepsNoMoreThanALineOfBoundedLength) {
  EXPECT_EQ(said_by("muster: error: " + std::string(100000, 'x')).size(), 500U);
  EXPECT_EQ(said_by(std::string(100000, 'x')).size(), 500U);
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
  EXPECT_FALSE(counter.claim_kill(first));
  write(5);
  EXPECT_TRUE(counter.claim_kill(first));
  EXPECT_TRUE(counter.claim_kill(first));
  EXPECT_FALSE(counter.claim_kill(first));
  write(6);  // somebody else's, before the next attempt starts
  EXPECT_FALSE(counter.claim_kill(counter.read()));
}

TEST(TrialLogTest, KeepsTheNewestBytes) {
  const test::Folder folder;
  TrialLog log(folder.path() / "out.log", 10);
  EXPECT_EQ(log.write("12345\n"), "");
  EXPECT_EQ(log.write("6789\n"), "");
  EXPECT_EQ(log.write("abcdefgh\n"), "");
  EXPECT_EQ(read_file(folder.path() / "out.log"), "abcdefgh\n");
  EXPECT_EQ(read_file(folder.path() / "out.log.1"), "6789\n");
}

TEST(TrialLogTest, SaysOnceThatItCannotBeWritten) {
  TrialLog log("/nowhere/out.log");
  EXPECT_THAT(log.write("x"), HasSubstr("/nowhere/out.log"));
  EXPECT_EQ(log.write("x"), "");
}

}  // namespace
}  // namespace muster::tune
