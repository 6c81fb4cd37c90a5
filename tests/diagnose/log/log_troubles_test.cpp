// What is a trouble of a log and what only looks like one.
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/diagnose/log/log_reader.h"

#include "tests/diagnose/log/corpus.h"
#include "tests/diagnose/log/findings.h"

namespace muster::diagnose {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(LogReader, FindsNothingInLogsOfHealthyRuns) {
  const std::filesystem::path folder = test::source_path("tests/diagnose/corpus/healthy");
  int logs = 0, alarms = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    ++logs;
    const LogDiagnosis diagnosis = classify(read_file(file.path()));
    if (const Finding* first = diagnosis.first_cause()) {
      ++alarms;
      ADD_FAILURE() << file.path() << ": " << first->row->name << ": " << first->evidence[0].text;
    }
  }
  std::cout << "healthy logs: " << logs << ", false alarms: " << alarms << '\n';
  EXPECT_GE(logs, 5);
}

TEST(LogReader, AWarningIsACauseWhereItsPatternSaysSo) {
  const LogDiagnosis meant = classify(
      "2017-11-15 14:14:36.9: W tensorflow/core/common_runtime/bfc_allocator.cc:273] Allocator "
      "(GPU_0_bfc) ran out of memory trying to allocate 649.86MiB.  Current allocation summary "
      "follows.\n");
  ASSERT_NE(meant.first_cause(), nullptr);
  EXPECT_EQ(meant.first_cause()->row->name, "cuda-out-of-memory");
  const LogDiagnosis harmless = classify(
      "2017-11-15 14:14:36.9: W tensorflow/core/common_runtime/bfc_allocator.cc:219] Allocator "
      "(GPU_0_bfc) ran out of memory trying to allocate 2.00GiB. The caller indicates that this is "
      "not a failure.\n");
  EXPECT_EQ(harmless.first_cause(), nullptr);
}

TEST(LogReader, WhatCMakeSaysLastIsNoNoteAndStatusZeroNoFailure) {
  EXPECT_EQ(first_of(classify("-- Configuring incomplete, errors occurred!\n")),
            "build-not-configured");
  EXPECT_EQ(first_of(classify("-- Looking for pthread_create - not found\n")), "none");
  EXPECT_EQ(first_of(classify("Command exited with status 0\n")), "none");
  EXPECT_EQ(first_of(classify("Command exited with status 1\n")), "process-failed");
}

TEST(LogReader, NamesOfTestsAndFilesThatAreBuiltAreNoFailure) {
  for (const char* line : {"      Start 3210: Gloo.FailsWithAnErrorOfItsPeer\n",
                           "[102/304] Building CXX object rank_failure_and_nvcc_error.cpp.o\n",
                           "[ 50%] Linking CXX executable bin/segmentation_fault_error\n"})
    EXPECT_EQ(classify(line).first_cause(), nullptr) << line;
}

TEST(LogReader, LossesOfAStepThatAreNaNMayBeCalledAnything) {
  const LogDiagnosis losses = classify("300/1000 [15:56<51:25, 18.7s/it]G: nan | D: nan | GP: 1\n");
  ASSERT_NE(losses.first_cause(), nullptr);
  EXPECT_EQ(losses.first_cause()->row->name, "not-a-number");
  EXPECT_EQ(
      classify("epoch 3: AP=nan, AP50=nan, AP75=0.3 of a class that is not there\n").first_cause(),
      nullptr);
}

TEST(LogReader, NumbersOfPatternsAreWhole) {
  const LogDiagnosis torchrun = classify(
      "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
      "  exitcode  : 1 (pid: 11377)\n");
  ASSERT_NE(torchrun.first_cause(), nullptr);
  EXPECT_EQ(torchrun.first_cause()->row->name, "process-failed");
  EXPECT_EQ(classify("step 137 status 1370 ok").first_cause(), nullptr);
  const LogDiagnosis shell = classify("exited with status 137\n");
  ASSERT_NE(shell.first_cause(), nullptr);
  EXPECT_EQ(shell.first_cause()->row->name, "killed");
}

TEST(LogReader, ClocksDecideBetweenRanksThatWroteInNoOrder) {
  const std::string stuck =
      "[rank7]:[E626 05:14:36.393067540 ProcessGroupNCCL.cpp:1743] ProcessGroupNCCL's watchdog got "
      "stuck for 480 seconds\n";
  const std::string timeout =
      "[rank2]:[E626 05:06:30.929096625 ProcessGroupNCCL.cpp:632] [Rank 2] Watchdog caught "
      "collective operation timeout: x\n";
  for (const std::string& log : {stuck + timeout, timeout + stuck}) {
    const LogDiagnosis diagnosis = classify(log);
    ASSERT_NE(diagnosis.first_cause(), nullptr);
    EXPECT_EQ(diagnosis.first_cause()->row->name, "collective-timeout");
  }
}

TEST(LogReader, MessagesAreKnownAcrossTheLinesThatTheyWereWrappedTo) {
  const auto named = [](std::string_view text) {
    const LogDiagnosis diagnosis = classify(text);
    return diagnosis.first_cause() == nullptr ? std::string_view("none")
                                              : diagnosis.first_cause()->row->name;
  };
  EXPECT_EQ(named("RuntimeError: DataLoader worker (pid 47) is killed by signal: Bus\n"
                  "error. It is possible that the workers are out of shared\nmemory.\n"),
            "shm-exhausted");
  EXPECT_EQ(named("Error: Check failed: status == CUBLAS_STATUS_SUCCESS, "
                  "CUBLAS_STATUS_EXEC\nUTION_FAILED\n"),
            "cublas-execution-failed");
  EXPECT_EQ(named("RuntimeError: the bus\nstep 4\nerror. rate 0.1\n"), "none") << "a line between";
  EXPECT_EQ(named("took the bus\nerror 0.5 of the meter\n"), "none") << "speaks of no failure";
}

TEST(LogReader, ALossThatIsFiniteAgainHasPassed) {
  const LogDiagnosis passed = classify("step 1 loss=nan\nstep 2 loss=2.3\nstep 3 loss=0.3\n");
  EXPECT_EQ(first_of(passed), "none");
  EXPECT_EQ(finding_of(passed, "not-a-number").part, Part::kWarning);
  EXPECT_THAT(finding_of(passed, "not-a-number").because, HasSubstr("finite again"));
  for (const char* log : {"step 1 loss=0.3\nstep 2 loss=nan\n",
                          "step 1 loss=nan\nstep 2 loss=0.3\nstep 3 loss=nan\n",
                          "step 1 loss=nan\nbest loss=0.3\n",
                          "step 1 loss=nan\nval_loss=0.3\n",
                          "[rank1]: step 1 loss=nan\n[rank0]: step 1 loss=0.3\n",
                          "step 1 loss=nan\nstep 2 loss=0.3\nloss is nan, stopping\n",
                          "epoch 3 loss nan accuracy 0\n",
                          "train loss 0.5 val loss nan\n",
                          "loss 0.3 nan count 12\n",
                          "{\"loss\": 0.29, \"nan\": true}\n"})
    EXPECT_EQ(first_of(classify(log)), "not-a-number") << log;
}

TEST(LogReader, CountedAndDeniedTroublesAndClassesAreNone) {
  for (const char* line : {"epoch 1 loss 2.3012 nan count 0",
                           "loss 2.3 nan 0",
                           "{\"step\": 20, \"loss\": 0.29, \"nan\": false}",
                           "loss is not nan",
                           "loss is not NaN, continuing",
                           "  0%|          | 0/100 [00:00<?, ?it/s, loss=nan]",
                           "class out_of_memory AP 0.33",
                           "class out_of_memory: 12 images"})
    EXPECT_THAT(classify(line).findings, IsEmpty()) << line;
  EXPECT_EQ(first_of(classify("JobState=OUT_OF_MEMORY Reason=OutOfMemory")), "killed");
}

TEST(LogReader, AnEndIsNamedByItsOwnSignal) {
  EXPECT_EQ(first_of(classify(
                "RuntimeError: DataLoader worker (pid 2841) is killed by signal: Terminated.")),
            "job-cancelled");
  EXPECT_EQ(
      first_of(classify("RuntimeError: DataLoader worker (pid 2841) is killed by signal: Killed.")),
      "killed");
  EXPECT_EQ(first_of(classify("Aborted (core dumped)")), "aborted");
  EXPECT_EQ(first_of(classify("run.sh: line 7: 168 Aborted                 (core dumped) ./train")),
            "aborted");
  EXPECT_EQ(
      first_of(classify("x.cpp:7: void f(): Assertion `n > 0' failed.\nAborted (core dumped)\n")),
      "none")
      << "its reason is among the lines that speak of a failure";
  const LogDiagnosis thread =
      classify("terminate called without an active exception\nAborted (core dumped)\n");
  EXPECT_EQ(first_of(thread), "aborted");
  EXPECT_THAT(std::string(thread.first_cause()->cause->why), HasSubstr("std::thread"));
  EXPECT_EQ(first_of(classify("Aborted (core dumped)\nCUDA out of memory\n")),
            "cuda-out-of-memory");
}

}  // namespace
}  // namespace muster::diagnose
