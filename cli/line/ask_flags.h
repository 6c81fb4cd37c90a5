// The flags of `muster evaluate` and `muster predict`: torch-free, so that help and completions
// need no LibTorch.
#pragma once

#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>

#include "muster/train/plan/ask_options.h"

namespace muster::cli {

struct EvaluateFlags {
  train::AskOptions ask;
  bool json = false;
};

struct PredictFlags {
  train::AskOptions ask;
  std::filesystem::path output = "predictions.csv";  ///< "-": stdout
  bool probabilities = false;
};

/// Their Apps, which write to `flags`.
std::unique_ptr<CLI::App> evaluate_app(EvaluateFlags& flags);
std::unique_ptr<CLI::App> predict_app(PredictFlags& flags);

}  // namespace muster::cli
