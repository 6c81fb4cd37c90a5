#include "muster/diagnose/log/counted_text.h"

#include <gtest/gtest.h>

#include "muster/diagnose/log/line_text.h"

namespace muster::diagnose {
namespace {

TEST(CountedText, WhatIsCountedMayBeAbsent) {
  const auto counts_none = [](std::string_view line, std::string_view words) {
    const size_t at = line.find(words);
    return is_counted_zero(line, at, at + words.size());
  };
  EXPECT_TRUE(counts_none("number of nan iterations:   0 | loss 1.2", "nan"));
  EXPECT_TRUE(counts_none("out of memory errors = 0, retries: 0", "out of memory"));
  EXPECT_TRUE(counts_none("0 nan losses in 1000 steps", "nan losses"));
  EXPECT_TRUE(counts_none("loss is nan: False", "loss is nan"));
  EXPECT_FALSE(counts_none("nan iterations: 12", "nan"));
  EXPECT_FALSE(
      counts_none("loss scaler 0 reducing loss scale to 0.0", "reducing loss scale to 0.0"));
  EXPECT_FALSE(counts_none("10 nan losses", "nan losses"));
  EXPECT_FALSE(counts_none("out of memory on device: 0", "out of memory"));
  EXPECT_FALSE(counts_none("Killed: 0.5", "Killed"));
}

// Counts as reports of runs, of tests and of downloads have them.
TEST(CountedText, WhatWasCountedToNoneIsNoFailure) {
  for (const char* line : {"failed samples: 0",
                           "failed_samples=0, retried_samples=3",
                           "\"failed\": 0",
                           "number of failed requests: 0",
                           "Failures: 0, Skipped: 14",
                           "errors encountered: 0",
                           "Error count: 0",
                           "0 samples failed",
                           "0 of 12 samples, 0 requests failed",
                           "num_failures: 0 num_ok: 31",
                           "failure rate: 0%",
                           "100% tests passed, 0 tests failed out of 126",
                           "failed: 0/12",
                           "checked 12 files without errors",
                           "No errors were found",
                           "aborted transactions: 0"})
    EXPECT_FALSE(speaks_of_failure(line)) << line;
}

TEST(CountedText, NumbersOfRanksAndCodesAreNoCounts) {
  for (const char* line : {"failed samples: 3",
                           "failed (exitcode: 0) local_rank: 0",
                           "failed on rank: 0",
                           "Error on device: 0",
                           "Error code: 0x10",
                           "failed address: 0x0",
                           "10 samples failed",
                           "failed with status 0",
                           "rank 0 failed",
                           "errors: 0, then it failed",
                           "worker 0: error: cannot open",
                           "Assertion failed: count: 1"})
    EXPECT_TRUE(speaks_of_failure(line)) << line;
}

}  // namespace
}  // namespace muster::diagnose
