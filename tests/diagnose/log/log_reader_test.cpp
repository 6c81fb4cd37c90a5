// Which error of several is the first, and what a reader makes of bytes as programs leave them.
#include "muster/diagnose/log/log_reader.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/diagnose/log/corpus.h"
#include "tests/diagnose/log/findings.h"

namespace muster::diagnose {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kFullDevice =
    "CUDA out of memory. Tried to allocate 336.00 MiB. GPU 0 has a total capacity of 79.15 GiB of "
    "which 141.25 MiB is free. Of the allocated memory 77.21 GiB is allocated by PyTorch, and "
    "283.51 "
    "MiB is reserved by PyTorch but unallocated.";
constexpr const char* kTimedOut =
    "[E ProcessGroupNCCL.cpp:563] [Rank 5] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=15734, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600037 milliseconds";

TEST(LogReader, AFewIdleBlocksOfAFullDeviceAreNoFragmentation) {
  const std::string full =
      "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 2 has a total capacity of 79.15 GiB of "
      "which 17.62 MiB is free. Of the allocated memory 78.20 GiB is allocated by PyTorch, and ";
  EXPECT_EQ(first_of(classify(full + "312.40 MiB is reserved by PyTorch but unallocated.")),
            "cuda-out-of-memory");
  EXPECT_EQ(first_of(classify(full + "9.40 GiB is reserved by PyTorch but unallocated.")),
            "cuda-fragmentation");
}

TEST(LogReader, ATimeoutOfOtherRanksFollowsFromTheOneThatFailed) {
  const std::string log = concat("[rank5]:",
                                 kTimedOut,
                                 "\n[rank2]: torch.OutOfMemoryError: ",
                                 kFullDevice,
                                 "\n[rank3]:",
                                 kTimedOut);
  const LogDiagnosis diagnosis = classify(log);
  EXPECT_EQ(first_of(diagnosis), "cuda-out-of-memory");
  EXPECT_THAT(diagnosis.first_cause()->ranks, ElementsAre(2));
  const Finding& timeout = finding_of(diagnosis, "collective-timeout");
  EXPECT_EQ(timeout.part, Part::kConsequence);
  EXPECT_THAT(timeout.because, HasSubstr("rank 2"));
  EXPECT_EQ(timeout.count, 2);
}

TEST(LogReader, WhatARankSaysAfterItsPeersWereLostIsNoFirstCause) {
  // https://github.com/NVIDIA/nccl/issues/1284: the timeout was first, and NCCL's people say so.
  const LogDiagnosis diagnosis =
      classify(concat("[rank5]:", kTimedOut, "\n[rank5]: torch.OutOfMemoryError: ", kFullDevice));
  EXPECT_EQ(first_of(diagnosis), "collective-timeout");
  EXPECT_EQ(finding_of(diagnosis, "cuda-out-of-memory").part, Part::kConsequence);
}

TEST(LogReader, OnlyPeersWordsAreOfLowConfidence) {
  const LogDiagnosis diagnosis = classify(concat("[rank5]:", kTimedOut));
  EXPECT_EQ(diagnosis.first_cause()->confidence, Confidence::kLow);
  EXPECT_THAT(diagnosis.first_cause()->because, HasSubstr("is not here"));
}

TEST(LogReader, AnErrorOfADeviceThatComesLaterIsReportedLate) {
  const LogDiagnosis diagnosis = classify(
      "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling "
      "`cublasCreate(handle)`\n"
      "Indexing.cu:1231: block: [31,0,0], thread: [29,0,0] Assertion `srcIndex < srcSelectDimSize` "
      "failed.\n"
      "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`\n");
  EXPECT_EQ(first_of(diagnosis), "device-side-assert");
  EXPECT_TRUE(diagnosis.first_cause()->cause_is_told);
  EXPECT_THAT(std::string(diagnosis.first_cause()->cause->why), HasSubstr("vocabulary"));
  EXPECT_EQ(finding_of(diagnosis, "cublas-execution-failed").part, Part::kConsequence);
}

TEST(LogReader, AKilledRankIsTheCauseOfClosedConnectionsAndNotOfALauncherThatCleansUp) {
  const std::string closed =
      "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by "
      "peer "
      "[10.0.0.1]:43185\n";
  EXPECT_EQ(
      first_of(classify(closed + "failed (exitcode: -9) local_rank: 3 (pid: 812917) of binary")),
      "killed");
  EXPECT_EQ(
      first_of(classify(closed + "  exitcode  : -9 (pid: 4711)\n  traceback : Signal 9 (SIGKILL) "
                                 "received by PID 4711")),
      "gloo-connection");
}

TEST(LogReader, TheNumbersOfAnOutOfMemoryTellItsCause) {
  const auto row_of = [](const char* numbers) {
    return first_of(classify(concat("CUDA out of memory. Tried to allocate ", numbers)));
  };
  EXPECT_EQ(
      row_of("1.65 GiB (GPU 1; 7.79 GiB total capacity; 3.53 GiB already allocated; 1.40 GiB free; "
             "5.28 GiB reserved in total by PyTorch)"),
      "cuda-fragmentation");
  EXPECT_EQ(
      row_of("2.26 GiB (GPU 0; 6.00 GiB total capacity; 781.59 MiB already allocated; 3.03 GiB "
             "free; 1.24 GiB reserved in total by PyTorch)"),
      "cuda-out-of-memory-though-free");
  const LogDiagnosis others = classify(
      "CUDA out of memory. Tried to allocate 1.69 GiB (GPU 0; 14.56 GiB total capacity; 649.97 MiB "
      "already allocated; 1.31 GiB free; 1.01 GiB reserved in total by PyTorch)");
  EXPECT_THAT(std::string(others.first_cause()->cause->why), HasSubstr("Other processes"));
  const LogDiagnosis huge = classify(
      "CUDA out of memory. Tried to allocate 55.57 GiB. GPU 0 has a total capacty of 12.00 GiB of "
      "which "
      "9.02 GiB is free.");
  EXPECT_THAT(std::string(huge.first_cause()->cause->why), HasSubstr("larger than the device"));
}

TEST(LogReader, NamesPlaceAndRankAndCountsSightings) {
  LogReader reader;
  reader.begin("a.log");
  reader.read("one\ntwo\n");
  reader.begin("b.log", 7);
  reader.read("\nOSError: [Errno 24] Too many open files\nOSError: [Errno 24] Too many open files");
  reader.end();
  const LogDiagnosis diagnosis = reader.diagnosis();
  ASSERT_NE(diagnosis.first_cause(), nullptr);
  const Finding& first = *diagnosis.first_cause();
  EXPECT_EQ(first.evidence[0].source, "b.log");
  EXPECT_EQ(first.evidence[0].line, 2);
  EXPECT_EQ(first.count, 2);
  EXPECT_THAT(first.ranks, ElementsAre(7));
  EXPECT_EQ(diagnosis.lines, 5);
}

TEST(LogReader, FindsTheSameWhereverBytesAreCut) {
  const std::string log = concat("\x1b[31mRuntimeError\x1b[0m: CUDA \x1b[1merror: an ille",
                                 "\x1b[0mgal memory access was encountered\r\n",
                                 "step 1\rstep 2\rstep 3: std::bad_alloc\n\xff\xfe\n");
  const LogDiagnosis whole = classify(log);
  EXPECT_EQ(first_of(whole), "illegal-memory-access");
  EXPECT_EQ(finding_of(whole, "bad-alloc").evidence[0].line, 2);
  for (size_t cut = 0; cut <= log.size(); ++cut) {
    LogReader reader;
    reader.begin("text");
    reader.read(std::string_view(log).substr(0, cut));
    reader.read(std::string_view(log).substr(cut));
    reader.end();
    const LogDiagnosis parts = reader.diagnosis();
    ASSERT_EQ(parts.findings.size(), whole.findings.size()) << cut;
    for (size_t i = 0; i < parts.findings.size(); ++i) {
      EXPECT_EQ(parts.findings[i].row, whole.findings[i].row) << cut;
      EXPECT_EQ(parts.findings[i].evidence[0].line, whole.findings[i].evidence[0].line) << cut;
    }
    EXPECT_EQ(parts.lines, whole.lines) << cut;
  }
}

TEST(LogReader, ALogOfTwoBytesPerLetterIsReadLikeAnother) {
  std::string wide = "\xff\xfe";
  for (const char letter : std::string_view("one\r\nOSError: [Errno 24] Too many open files\r\n")) {
    wide += letter;
    wide += '\0';
  }
  const LogDiagnosis diagnosis = classify(wide);
  EXPECT_EQ(first_of(diagnosis), "too-many-open-files");
  EXPECT_EQ(diagnosis.first_cause()->evidence[0].line, 2);
  EXPECT_EQ(diagnosis.lines, 2);
}

TEST(LogReader, AMarkOfTheByteOrderIsNoText) {
  for (const char* mark : {"\xef\xbb\xbf", "\xff\xfe"}) {
    const LogDiagnosis diagnosis = classify(concat(mark, "Killed\n"));
    ASSERT_EQ(first_of(diagnosis), "killed");
    EXPECT_EQ(diagnosis.first_cause()->evidence[0].text, "Killed");
  }
}

TEST(LogReader, ALineOfAnyLengthIsReadToItsEnd) {
  for (const size_t before : {65000U, 65530U, 65536U, 200000U}) {
    std::string line(before, 'x');
    line += "CUDNN_STATUS_NOT_INITIALIZED";
    EXPECT_EQ(first_of(classify(line + std::string(100000, 'y'))), "cudnn-not-initialized")
        << before;
    EXPECT_EQ(classify(line).lines, 1);
  }
}

TEST(LogReader, AShellsWordsForAKillAreKnownInItsOtherFormsToo) {
  for (const char* line : {"Killed",
                           "[rank3]: Killed",
                           "trainer-1  | Killed",
                           "2026-11-26T10:11:12.5Z Killed",
                           "[1]    63023 killed     python train.py",
                           "zsh: killed     ./train",
                           "train.sh: line 4: 4711 Killed                  ./train",
                           "\xe5\xb7\xb2\xe6\x9d\x80\xe6\xad\xbb",
                           "make: *** [Makefile:3: train] Error 137"})
    EXPECT_EQ(first_of(classify(line)), "killed") << line;
  for (const char* line : {"step 12: killed", "Killed 3 stale workers", "killed time: 3 s"})
    EXPECT_EQ(first_of(classify(line)), "none") << line;
}

TEST(LogReader, ASureRowComesBeforeOneThatOthersSayAsWell) {
  EXPECT_EQ(
      first_of(classify("RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "
                        "\"../c10/cuda/CUDACachingAllocator.cpp\":830, please report a bug to "
                        "PyTorch.")),
      "nvml-assert");
  EXPECT_EQ(
      first_of(classify("RuntimeError: x INTERNAL ASSERT FAILED at \"y.cpp\":1, please report a "
                        "bug to PyTorch.")),
      "libtorch-assertion");
}

TEST(LogReader, WhatSrunEndsIsNotTheCauseOfWhatItEndsItFor) {
  EXPECT_EQ(
      first_of(classify("srun: error: n1: task 5: Exited with exit code 1\n"
                        "slurmstepd: error: *** STEP 4.0 ON n1 CANCELLED AT 2026-11-26T08:00:36 "
                        "***\n"
                        "srun: error: n1: tasks 3,7: Killed\n")),
      "process-failed");
  EXPECT_EQ(
      first_of(classify("slurmstepd: error: *** JOB 4 ON n1 CANCELLED AT 2026-11-26T08:00:36 DUE "
                        "TO TIME LIMIT ***\n"
                        "srun: error: n1: tasks 3,7: Killed\n")),
      "job-cancelled");
}

TEST(LogReader, AnUnknownWordingOfAKnownSubjectIsGuessed) {
  const LogDiagnosis diagnosis =
      classify("ValueError: expected a size of (2, 3) for the mask, here (2, 4)\nexit code 1\n");
  EXPECT_EQ(first_of(diagnosis), "shape-mismatch");
  EXPECT_EQ(diagnosis.first_cause()->confidence, Confidence::kLow);
  // Nothing else of the line is known, and it speaks of a failure.
  EXPECT_EQ(classify("expected a size of (2, 3) for the mask").first_cause(), nullptr);
  EXPECT_EQ(classify("epoch 2 error: 0.31, expected size 12").first_cause(), nullptr);
  EXPECT_EQ(first_of(classify("ValueError: expected a size\nCUDA out of memory\n")),
            "cuda-out-of-memory");
  // A guess is no nearer than its row: peers' words stay those of peers.
  EXPECT_EQ(first_of(classify("SomeError: connection was closed by 3\nKilled\n")), "killed");
}

TEST(LogReader, AnErrorIsSaidOnTheLineBehindItsName) {
  const std::string said = "expected a size of 2, here 3\n";
  EXPECT_EQ(classify(said).first_cause(), nullptr);
  for (const char* name : {"  what():  \n", "RuntimeError: \n", "x.SomeError:\n"})
    EXPECT_EQ(first_of(classify(name + said)), "shape-mismatch") << name;
  EXPECT_EQ(classify("  what():  \n\nfine\n" + said).first_cause(), nullptr);
}

TEST(LogReader, AStepThatWasMadeAgainIsNoFailure) {
  const std::string mended =
      "step 1: out of memory with 192 samples at a time (CUDA out of memory. Tried to allocate "
      "96.00 "
      "KiB.): the step is made again, 96 at a time\n";
  EXPECT_EQ(classify(mended).first_cause(), nullptr);
  const LogDiagnosis then =
      classify(mended + "RuntimeError: CUDA error: an illegal memory access was encountered\n");
  ASSERT_NE(then.first_cause(), nullptr);
  EXPECT_EQ(then.first_cause()->row->name, "illegal-memory-access");
}

TEST(LogReader, KnowsMustersOwnWordsForMemoryThatRanOut) {
  for (const char* line :
       {"muster: error: fake:0 is out of memory in the first step: Tried to allocate 96 KiB.",
        "muster: error: out of memory in the first step, a step with 1 sample at a time: Tried to",
        "muster: error: cuda:1 is out of memory after step 32: Tried to allocate 64 KiB",
        "muster: error: a batch size that fits: not even 1 sample does"}) {
    const LogDiagnosis diagnosis = classify(line);
    ASSERT_NE(diagnosis.first_cause(), nullptr) << line;
    EXPECT_EQ(diagnosis.first_cause()->row->name, "cuda-out-of-memory") << line;
  }
}

TEST(LogReader, AWarningIsNoFailure) {
  const LogDiagnosis diagnosis = classify(
      "[W socket.cpp:401] [c10d] The server socket has failed to bind to [::]:47531 (errno: 98 - "
      "Address "
      "already in use).\n");
  EXPECT_EQ(first_of(diagnosis), "none");
  EXPECT_EQ(finding_of(diagnosis, "address-in-use").part, Part::kWarning);
}

TEST(LogReader, ShowsTheLastLinesThatSpeakOfAFailureWithoutARow) {
  const LogDiagnosis diagnosis = classify("a\nValueError: nobody knows this one\nb\n");
  EXPECT_THAT(diagnosis.findings, IsEmpty());
  ASSERT_EQ(diagnosis.unexplained.size(), 1U);
  EXPECT_EQ(diagnosis.unexplained[0].line, 2);
}

TEST(LogReader, TheEndOfAProgramIsEvidence) {
  LogReader quiet;
  quiet.program_ended({.signal = SIGKILL, .oom_kills = 1, .most_resident_bytes = 3LL << 30});
  const LogDiagnosis killed = quiet.diagnosis();
  EXPECT_EQ(first_of(killed), "killed");
  EXPECT_TRUE(killed.first_cause()->cause_is_told);
  EXPECT_THAT(killed.first_cause()->evidence[0].text, HasSubstr("rose by 1"));
  LogReader shell;
  shell.program_ended({.exit_code = 128 + SIGSEGV});
  EXPECT_EQ(first_of(shell.diagnosis()), "segmentation-fault");
  LogReader fine;
  fine.program_ended({});
  EXPECT_THAT(fine.diagnosis().findings, IsEmpty());
}

}  // namespace
}  // namespace muster::diagnose
