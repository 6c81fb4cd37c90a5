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
using ::testing::Not;

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

/// Of each log of a folder, of each of its lines and of some neighbours, how many are named, and how many there are.
struct Alarms {
  int named = 0, all = 0;
};
Alarms alarms_of_windows(const std::string& folder) {
  Alarms alarms;
  for (const auto& file : std::filesystem::directory_iterator(test::source_path(folder))) {
    const std::vector<std::string> lines = split(read_file(file.path()), '\n');
    for (const size_t size : {size_t{1}, size_t{2}, size_t{3}, lines.size()}) {
      for (size_t begin = 0; begin + size <= lines.size(); ++begin) {
        std::string text;
        for (size_t at = begin; at < begin + size; ++at) text += lines[at] + '\n';
        const LogDiagnosis diagnosis = classify(text);
        const Finding* first = diagnosis.first_cause();
        ++alarms.all;
        alarms.named += first != nullptr ? 1 : 0;
        if (first != nullptr)
          std::cout << file.path().filename() << ": " << first->row->name << ": " << text;
      }
    }
  }
  return alarms;
}

// Nothing was learned from these logs (scripts/learn_words.py): real ones of test runners, tools and
// programs whose tests and words are named after troubles, and lines by hand about the subject of each row.
TEST(LogReader, FindsAlmostNothingInPiecesOfHarmlessLogsThatNobodyLearnedFrom) {
  const Alarms alarms = alarms_of_windows("tests/diagnose/corpus/harmless");
  std::cout << "pieces of harmless logs: " << alarms.all << ", false alarms: " << alarms.named
            << '\n';
  EXPECT_GE(alarms.all, 500);
  EXPECT_LE(alarms.named, 0.03 * alarms.all);
}

// Troubles of programs and tools that no row is about: whatever is said of them, it is not by words that they share.
TEST(LogReader, NamesNoOrdinaryTroubleByItsWordsAlone) {
  const std::filesystem::path folder = test::source_path("tests/diagnose/corpus/ordinary");
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    for (const std::string& line : split(read_file(file.path()), '\n')) {
      const LogDiagnosis diagnosis = classify(line);
      const Finding* first = diagnosis.first_cause();
      EXPECT_TRUE(first == nullptr || !first->by_likeness) << first->row->name << ": " << line;
    }
  }
}

TEST(LogReader, ALimitOfMemoryBesideTestsNamedAfterItIsNoTrouble) {
  for (const char* line : {"note: vram limit for the tests is 4 GiB\n",
                           "vram limit: 8 GiB\n",
                           "device memory limit 20 GiB, vram in use 3 GiB\n"})
    EXPECT_EQ(first_of(classify(concat("tests/test_oom.py::test_cuda_out_of_memory PASSED\n",
                                       line,
                                       "tests/test_oom.py::test_oom_is_retried PASSED\n"))),
              "none")
        << line;
  EXPECT_EQ(first_of(classify("CUDA out of memory, vram limit: 8 GiB\n")), "cuda-out-of-memory");
}

// What make and compilers say of any code.
TEST(LogReader, AnOrdinaryFailureOfABuildIsNoMatterOfCuda) {
  for (const char* text : {"make: *** [Makefile:5: all] Error 1\n",
                           "make: *** [all] Error 2\n",
                           "main.cpp:3:12: error: expected ';' before '}' token\n",
                           "src/app.c:41:3: error: implicit declaration of function 'f'\n",
                           "app.cpp(12): error C2065: 'x': undeclared identifier\n",
                           "kernel.cu(12): error: identifier \"n\" is undefined\n",
                           "main.cpp:3:10: fatal error: 'x' is not a type\n",
                           "make: *** No rule to make target 'all'.  Stop.\n",
                           "ninja: build stopped: subcommand failed.\n"}) {
    const LogDiagnosis diagnosis = classify(text);
    ASSERT_NE(diagnosis.first_cause(), nullptr) << text;
    EXPECT_EQ(diagnosis.first_cause()->row->name, "build-failed") << text;
    EXPECT_THAT(diagnosis.first_cause()->cause->why, Not(HasSubstr("CUDA"))) << text;
  }
  for (const char* text : {"train.py: error: unrecognized arguments: --x\n",
                           "tool.py:12: error: Incompatible types in assignment\n"})
    EXPECT_EQ(first_of(classify(text)), "none") << text;
  // A line that says more comes first.
  EXPECT_EQ(
      first_of(classify(
          "main.cpp:3:10: error: expected ';'\nCould NOT find CUDA\nmake: *** [all] Error 2\n")),
      "build-not-configured");
  EXPECT_EQ(
      first_of(classify("a.cpp:1:10: fatal error: torch/torch.h: No such file or directory\n")),
      "build-not-configured");
}

TEST(LogReader, ACompilersErrorAboutLibTorchIsAboutItsVersion) {
  for (const char* text :
       {"libtorch/include/torch/csrc/api/include/torch/types.h:39:16: error: conflicting "
        "declaration 'x'\n",
        "main.cpp:3:12: error: could not convert 'y' to 'at::Tensor'\n",
        "main.cpp(12): error C2440: cannot convert from 'int' to 'c10::ScalarType'\n"})
    EXPECT_EQ(first_of(classify(text)), "api-differs") << text;
  EXPECT_EQ(first_of(classify("main.cpp:3:12: error: 'format::x' is private\n")), "build-failed");
}

// The cause of the row is the one of what the build misses, not always the toolkit.
TEST(LogReader, OnlyALineAboutTheToolkitIsAnsweredByTheToolkit) {
  const auto why = [](std::string_view text) {
    const LogDiagnosis diagnosis = classify(text);
    return std::string(diagnosis.first_cause()->cause->why);
  };
  EXPECT_THAT(why("No CMAKE_CXX_COMPILER could be found\n"), Not(HasSubstr("CUDA")));
  EXPECT_THAT(why("-- Configuring incomplete, errors occurred!\n"), Not(HasSubstr("CUDA")));
  EXPECT_THAT(why("CUDA_HOME environment variable is not set\n"), HasSubstr("CUDA toolkit"));
  EXPECT_THAT(why("sh: 1: nvcc: not found\n"), HasSubstr("CUDA toolkit"));
}

// github.com/NVIDIA/nccl/issues/1515; "Networking Troubleshooting" of NCCL's user guide.
TEST(LogReader, ConnectionsThatNcclDoesNotGetSayWhyTheyFail) {
  const auto why = [](std::string_view text) {
    const LogDiagnosis diagnosis = classify(text);
    return diagnosis.first_cause() == nullptr ? ""
                                              : std::string(diagnosis.first_cause()->cause->why);
  };
  for (const char* text :
       {"a:1:2 [0] misc/socket.cc:456 NCCL WARN socketStartConnect: Connect to 10.0.0.3<40123> "
        "failed : Connection refused\n",
        "a:1:2 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.0.0.3<40123> "
        "failed : Software caused connection abort\n",
        "a:1:2 [3] os/linux.cc:200 NCCL WARN ncclOsSocketPollConnect: connect to 10.0.0.3<40123> "
        "returned Connection refused, exceeded error retry count after 35 attempts\n",
        "a:1:2 [0] misc/socket.cc:430 NCCL WARN socketStartConnect: exceeded retries (20000)\n"})
    EXPECT_THAT(why(text), HasSubstr("does not listen any more")) << text;
  for (const char* text :
       {"a:1:2 [0] misc/socket.cc:456 NCCL WARN socketStartConnect: Connect to 10.0.0.3<40123> "
        "failed : No route to host\n",
        "a:1:2 [0] misc/socket.cc:544 NCCL WARN socketPollConnect: connect to 10.0.0.3<40123> "
        "returned Connection timed out, exceeded error retry count (35)\n"})
    EXPECT_THAT(why(text), HasSubstr("does not answer")) << text;
  // Tries that are made again are no failure.
  EXPECT_EQ(
      first_of(classify(
          "a:1:2 [1] NCCL INFO socketPollConnect: connect to 10.0.0.3<40123> returned Connection "
          "refused, retrying (1/34) after sleep for 100 msec\n")),
      "none");
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
