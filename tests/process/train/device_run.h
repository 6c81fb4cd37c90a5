// Small trainings by `muster train --device`, as a user starts them, and what they leave.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/text.h"

#include "tests/process/train/train_words.h"
#include "tests/support/launched.h"

namespace muster::test {

struct DeviceRun {
  int code = -1;
  std::string out, err;
};

/// Runs `muster` with these words to its end, which leaves no process behind.
inline DeviceRun device_run(const Words& words, std::vector<std::string> environment = {}) {
  environment.push_back("OMP_NUM_THREADS=1");
  testing_process::Launched program(words, {.environment = std::move(environment)});
  const int code = program.wait(std::chrono::seconds(120)).code;
  EXPECT_TRUE(program.nothing_left());
  return {code, program.out(), program.err()};
}

/// A small run; `more` may name another model.
inline Words small_device_run(const std::filesystem::path& output, const Words& more = {}) {
  Words words = train_uneven({"--epochs", "2", "--output", output});
  const auto model = std::find(words.begin(), words.end(), "--model");
  if (std::find(more.begin(), more.end(), "--model") != more.end()) words.erase(model, model + 2);
  return joined(words, more);
}

inline std::filesystem::path newest_checkpoint(const std::filesystem::path& output) {
  return output / "checkpoints" / std::string(trim(read_file(output / "latest")));
}

/// The newest checkpoint's files, as they are.
inline std::string saved_bits(const std::filesystem::path& output) {
  const std::filesystem::path folder = newest_checkpoint(output);
  return read_file(folder / "model.safetensors") + read_file(folder / "optimizer.safetensors");
}

}  // namespace muster::test
