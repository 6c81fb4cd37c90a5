// Texts that tell of a trouble, and failures beside them; see Note [Narrated troubles].
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/diagnose/log/log_reader.h"

#include "tests/diagnose/log/corpus.h"
#include "tests/diagnose/log/findings.h"

namespace muster::diagnose {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Nothing is said of the text by itself, and a failure behind it and before it is found.
void expect_only_told(const std::string& text) {
  EXPECT_EQ(first_of(classify(text)), "none") << text;
  const std::string failure = "RuntimeError: size mismatch, m1: [2 x 3], m2: [4 x 5]\n";
  EXPECT_EQ(first_of(classify(text + failure)), "shape-mismatch") << text;
  EXPECT_EQ(first_of(classify(failure + text)), "shape-mismatch") << text;
}

TEST(NarratedText, AHistoryOfTheCodeIsNoFailure) {
  expect_only_told(
      "1c74e6f3 Merge branch 'x'\n"
      "fdc0e14 fix segmentation fault (core dumped) in the loader\n"
      "1234567 Segmentation fault (core dumped) is gone\n");
  expect_only_told("a1b2c3d fix-nccl: ncclSystemError on restart\n");
  expect_only_told("* a1b2c3d (HEAD -> main) retry after CUDA out of memory\n");
  expect_only_told("| * a1b2c3d retry after CUDA out of memory\n");
  expect_only_told(
      "commit 1c74e6f3aa1c74e6f3aa1c74e6f3aa1c74e6f3aa\n"
      "Author: Jo <jo@example.com>\n"
      "Date:   Sun Nov 29 22:00:00 2026 +0000\n"
      "\n"
      "    Segmentation fault (core dumped) when closing\n"
      "\n"
      "    The job said CUDA out of memory before.\n"
      "\n"
      "diff --git a/a.py b/a.py\n"
      "@@ -1,2 +1,2 @@\n"
      "-raise RuntimeError('CUDA out of memory')\n"
      "+# no Segmentation fault (core dumped) any more\n");
  expect_only_told(
      "$ git commit -m \"fix segmentation fault (core dumped) in the loader\"\n"
      "[main 1a2b3c4] fix segmentation fault (core dumped) in the loader\n"
      " 1 file changed, 2 insertions(+)\n");
  expect_only_told("$ grep -n 'CUDA out of memory' train.log\n");
  expect_only_told("- fixed: Segmentation fault (core dumped) without a GPU\nFixes #12\n");
}

TEST(NarratedText, NumbersAndNamesBeforeAFailureMakeNoHistoryOfIt) {
  for (const char* line : {"12345678 Segmentation fault (core dumped) ./train",
                           "[1]    1234567 segmentation fault (core dumped)  ./train",
                           "run.sh: line 7: 1234567 Segmentation fault (core dumped) ./train",
                           "a1b2c3d4 ERROR Segmentation fault (core dumped)",
                           "a1b2c3d4 12:30:01 Segmentation fault (core dumped)",
                           "commit 1c74e6f3aa1c74e6f3aa\n    Segmentation fault (core dumped)",
                           "  -bash: line 1: 1234 Segmentation fault      (core dumped) ./a",
                           "fixed-size batches: Segmentation fault (core dumped)",
                           "-rw-r--r-- 1 a\nSegmentation fault (core dumped)",
                           "[train] Segmentation fault (core dumped)"})
    EXPECT_EQ(first_of(classify(line)), "segmentation-fault") << line;
  EXPECT_EQ(first_of(classify("a1b2c3d RuntimeError: CUDA out of memory.\n")),
            "cuda-out-of-memory");
}

TEST(NarratedText, HelpOfOptionsIsNoFailure) {
  expect_only_told(
      "Usage: train [OPTIONS]\n"
      "  --backtrace           print a stack on segmentation fault\n"
      "  -h, --help            print this; what to do when CUDA is\n"
      "                        CUDA out of memory\n");
  expect_only_told(
      "  --a N       how many\n  --a-long-option NAME\n              stop on CUDA out of memory\n");
  EXPECT_EQ(first_of(classify("  --a  how many\n  --b\nSegmentation fault (core dumped)\n")),
            "segmentation-fault");
  EXPECT_EQ(first_of(classify("  --a  how many\n          Segmentation fault (core dumped)\n")),
            "segmentation-fault")
      << "in another column";
  EXPECT_EQ(first_of(classify("  --epochs N   how many\nSegmentation fault (core dumped)\n")),
            "segmentation-fault");
}

TEST(NarratedText, ProseThatQuotesATroubleIsNoFailure) {
  expect_only_told("If you see `CUDA out of memory`, take a smaller batch.\n");
  expect_only_told("If you see CUDA out of memory, take a smaller batch.\n");
  expect_only_told("* `CUDA out of memory`: take a smaller batch\n");
  EXPECT_EQ(first_of(classify("RuntimeError: CUDA out of memory. If you see this, use `batch`\n")),
            "cuda-out-of-memory");
  EXPECT_EQ(first_of(classify("`RuntimeError: CUDA out of memory.`\n")), "cuda-out-of-memory")
      << "a message that somebody quoted, and nothing else";
  EXPECT_EQ(first_of(classify("error: train failed: `CUDA out of memory`\n")),
            "cuda-out-of-memory");
}

TEST(NarratedText, WhatWasExpectedIsNoFailure) {
  expect_only_told(
      "ok: caught expected exception: CUDA out of memory (simulated)\nall checks passed\n");
  expect_only_told("caught expected exception: CUDA out of memory\n");
  expect_only_told("ok 2 - raises KeyError: 'model'\n12 passed; raises KeyError: 'model' ok\n");
  expect_only_told("make: [Makefile:5: clean] Error 1 (ignored)\nfinished successfully\n");
  EXPECT_EQ(first_of(classify("an unexpected exception: CUDA out of memory\n")),
            "cuda-out-of-memory");
  EXPECT_EQ(first_of(classify("not ok 2 - CUDA out of memory, not ok\n")), "cuda-out-of-memory");
  EXPECT_EQ(first_of(classify("make: *** [Makefile:5: all] Error 1\n[100%] Built target x\n")),
            "build-failed");
}

TEST(NarratedText, WhatWasTriedAgainIsAFailureUnlessItWentWell) {
  const std::string again =
      "Retrying (attempt 1) after connection broken by "
      "'ReadTimeoutError(\"HTTPSConnectionPool(host='pypi.org', port=443): Read timed out.\")'\n";
  EXPECT_EQ(first_of(classify(again)), "download-failed");
  EXPECT_EQ(first_of(classify("Successfully installed numpy-2.0\n" + again)), "download-failed");
  EXPECT_EQ(first_of(classify(again + "ERROR: Could not complete successfully\n")),
            "download-failed");
  const LogDiagnosis mended = classify(again + "Successfully installed numpy-2.0\n");
  EXPECT_EQ(first_of(mended), "none");
  EXPECT_EQ(finding_of(mended, "download-failed").part, Part::kWarning);
  EXPECT_THAT(finding_of(mended, "download-failed").because, HasSubstr("went well"));
  EXPECT_EQ(first_of(classify(again + "Max retries exceeded with url: /simple/numpy\n"
                                      "Successfully installed pip-24.0\n")),
            "download-failed")
      << "a failure that is not tried again";
}

TEST(NarratedText, AWarningOfCMakeIsAFailureUnlessItWentWell) {
  const std::string warning =
      "CMake Warning at CMakeLists.txt:12 (message):\n"
      "  CUDA not found; building for the CPU: CUDA cannot be found\n\n\n";
  EXPECT_EQ(first_of(classify(warning)), "build-not-configured");
  EXPECT_EQ(first_of(classify(warning + "-- Configuring incomplete, errors occurred!\n")),
            "build-not-configured");
  EXPECT_EQ(first_of(classify(warning + "-- Build files have been written to: /x/build\n")),
            "none");
  EXPECT_THAT(classify("CMake Warning at CMakeLists.txt:12 (message):\n"
                       "  CUDA not found; building for the CPU\n\n\n"
                       "-- Configuring done (0.5s)\n"
                       "-- Generating done (0.0s)\n"
                       "-- Build files have been written to: /x/build\n")
                  .findings,
              IsEmpty());
}

TEST(NarratedText, AFailureBeforeAnUnrelatedSuccessIsFound) {
  EXPECT_EQ(first_of(classify("RuntimeError: CUDA out of memory.\n"
                              "Successfully installed numpy-2.0\nall checks passed\n")),
            "cuda-out-of-memory");
}

// The messages of all parts, each as it is read by itself.
TEST(NarratedText, MessagesOfTheCorpusAreFoundAmidToldTroublesAndSuccess) {
  int all = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(test::source_path("tests/diagnose/corpus"))) {
    if (file.path().extension() != ".txt") continue;
    for (const test::CorpusEntry& entry : test::read_corpus(file.path().stem().string())) {
      const LogDiagnosis alone = classify(entry.text);
      if (alone.first_cause() == nullptr || alone.first_cause()->by_likeness) continue;
      ++all;
      const std::string amid = concat(
          "a1b2c3d fix CUDA out of memory\n  --trace   print a stack on segmentation fault\n",
          entry.text,
          "Successfully installed numpy-2.0\n");
      EXPECT_EQ(first_of(classify(amid)), alone.first_cause()->row->name) << entry.address << '\n'
                                                                          << entry.text;
    }
  }
  EXPECT_GE(all, 500);
}

TEST(NarratedText, MakesLastWordsAndCTestsListAreFailures) {
  EXPECT_EQ(first_of(classify("Makefile:3: *** missing separator.  Stop.\n")), "build-failed");
  EXPECT_EQ(first_of(classify("rules.mk:12: *** recipe commences before first target.  Stop.\n")),
            "build-failed");
  EXPECT_EQ(first_of(classify("note: *** the end.\n")), "none");
  EXPECT_EQ(first_of(classify("67% tests passed, 1 tests failed out of 3\n\n"
                              "The following tests FAILED:\n\t  3 - x (SEGFAULT)\n"
                              "Errors while running CTest\n")),
            "segmentation-fault");
  EXPECT_EQ(first_of(classify("3/3 Test #3: x ................***Exception: SegFault  0.10 sec\n")),
            "segmentation-fault");
}

TEST(NarratedText, APythonModuleThatIsMissingIsShownAsItIs) {
  const LogDiagnosis module = classify(
      "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n"
      "ModuleNotFoundError: No module named 'torchvision'\n");
  EXPECT_EQ(first_of(module), "none");
  ASSERT_EQ(module.unexplained.size(), 1U);
  EXPECT_THAT(module.unexplained[0].text, HasSubstr("No module named 'torchvision'"));
}

}  // namespace
}  // namespace muster::diagnose
