// A small training run on one rank, with the lines that it has for people.
#pragma once

#include <string>
#include <vector>

#include "muster/base/file.h"

#include "tests/train/small_run.h"

namespace muster::test {

namespace fs = std::filesystem;

inline constexpr int64_t kEpochSteps = 13;  // of small_run

inline train::TrainOptions small_mlp() {
  train::TrainOptions options = small_run();
  options.model = "mlp:hidden=16";
  return options;
}

struct Noted {
  train::FitResult result;
  std::vector<std::string> notes;
};

/// One rank on this thread; `stop_after` steps if not 0.
inline Noted run_noted(const train::TrainOptions& options,
                       const fs::path& output,
                       const std::optional<fs::path>& resume = {},
                       int64_t stop_after = 0,
                       int64_t threads = 1,
                       const std::optional<train::TrainData>& other_data = {}) {
  const train::TrainData data = other_data ? *other_data : train::open_data(options.data, {});
  const train::TrainPlan plan =
      train::resolve(options, {.cores = 2, .intraop_threads = threads}, *data.train, *data.test);
  std::optional<train::Checkpoint> from;
  if (resume) from = train::load_checkpoint(*resume);
  Noted noted;
  int64_t asked = 0;
  testing::run_ranks(1, [&](distributed::ProcessGroup group) {
    noted.result =
        train::train(plan,
                     data,
                     group,
                     output,
                     from,
                     {.note = [&](const std::string& line) { noted.notes.push_back(line); },
                      .stop_requested = [&] { return stop_after > 0 && ++asked >= stop_after; }});
  });
  return noted;
}

inline std::string model_bytes(const fs::path& run) {
  return read_file(train::find_checkpoint(run) / "model.safetensors");
}

}  // namespace muster::test
