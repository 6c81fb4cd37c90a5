// What a run leaves for people to look at, beside its metrics and checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/train/plan/callbacks.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/task/evaluation.h"

namespace muster::train {

/// How a run ended.
struct RunEnd {
  int64_t steps = 0;  ///< of the whole run
  bool interrupted = false;
  std::string why_failed;  ///< "the loss is not finite in step 5"; empty: it did not fail
  double seconds = 0;
  const Evaluation* test = nullptr;           ///< null: it was not tested
  std::optional<MemoryFailures> memory = {};  ///< nothing: it never ran out
};

/// "2 times; 8 samples of a rank at a time since".
std::string text_of(const MemoryFailures& memory);

/// index.html (curves, result, plan, confusion matrix, checkpoints), curves.svg, and
/// confusion_matrix.csv if there is one. Reads metrics.jsonl. Throws an environment error.
void write_run_page(const FitPlan& plan,
                    const std::filesystem::path& output,
                    const RunEnd& end,
                    const std::vector<std::pair<std::string, std::string>>& about);

}  // namespace muster::train
