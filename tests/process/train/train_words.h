// The command lines of small trainings, as tests start them.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/file.h"
#include "muster/base/text.h"

namespace muster::test {

using Words = std::vector<std::string>;

inline Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The same command line with other values of flags that it has.
inline Words with_values(Words words,
                         const std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& [flag, value] : values)
    words.at(size_t(std::ranges::find(words, flag) - words.begin()) + 1) = value;
  return words;
}

/// `muster train` on `data` with a small MLP, and more flags.
inline Words train_words(const std::string& data,
                         const std::string& batch_size,
                         const Words& more) {
  return joined({"train", "--data", data, "--model", "mlp:hidden=16", "--batch-size", batch_size},
                more);
}

/// On data whose last batch is not whole (220 samples by 12), without workers.
inline Words train_uneven(const Words& more) {
  return joined(
      train_words(
          "synthetic:samples=220,test_samples=60,size=8,classes=4", "12", {"--workers", "0"}),
      more);
}

/// The step of the run's newest checkpoint: with it as --max-steps a resumed run ends where it is.
inline std::string latest_step(const std::filesystem::path& output) {
  return std::string(trim(read_file(output / "latest"))).substr(std::string_view("step-").size());
}

/// The same command line under `muster run`.
inline Words on_ranks(int ranks, Words words) {
  words.insert(words.begin(), {"run", "--nproc-per-node", std::to_string(ranks), "--", "muster"});
  return words;
}

}  // namespace muster::test
