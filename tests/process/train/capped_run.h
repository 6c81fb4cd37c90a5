// Runs of `muster train` on fake devices whose memory has an end.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/text.h"

#include "tests/process/train/train_words.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"

namespace muster::test {

namespace fs = std::filesystem;
using testing_process::Launched;

struct CappedRun {
  int code = -1;
  std::string out, err;
};

inline CappedRun capped_run(const Words& words, int64_t bytes = 0) {
  std::vector<std::string> environment{"OMP_NUM_THREADS=1"};
  if (bytes > 0) environment.push_back(concat("MUSTER_FAKE_BYTES=", bytes));
  Launched program(words, {.environment = std::move(environment)});
  const int code = program.wait(std::chrono::seconds(240)).code;
  EXPECT_TRUE(program.nothing_left());
  return {code, program.out(), program.err()};
}

inline constexpr int64_t kStageTooSmall =
    690'000;  // for a stage of it with 384 samples, not with 192

inline constexpr const char* kModel = "mlp:hidden=128,layers=2";

inline Words wide(const fs::path& output, const Words& more, const std::string& batch = "192") {
  return joined({"train",
                 "--data",
                 "synthetic:samples=1060,test_samples=60,size=8,classes=4",
                 "--validation-samples",
                 "100",
                 "--model",
                 kModel,
                 "--batch-size",
                 batch,
                 "--eval-batch-size",
                 "32",
                 "--workers",
                 "0",
                 "--epochs",
                 "2",
                 "--optimizer",
                 "sgd:momentum=0",
                 "--device",
                 "fake",
                 "--json",
                 "--output",
                 output},
                more);
}

inline std::string weights_of(const fs::path& output) {
  const fs::path folder = output / "checkpoints" / std::string(trim(read_file(output / "latest")));
  return read_file(folder / "model.safetensors") + read_file(folder / "optimizer.safetensors");
}

/// "batch size 480 found (": 480.
inline int64_t found_in(const std::string& err) {
  const std::string_view before = "batch size ", behind = " found (";
  const size_t end = err.find(behind);
  const size_t begin = end == std::string::npos ? end : err.rfind(before, end);
  if (begin == std::string::npos) return 0;
  return to_int(err.substr(begin + before.size(), end - begin - before.size())).value_or(0);
}

}  // namespace muster::test
