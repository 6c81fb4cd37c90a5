// The flags of `muster train`: torch-free, so that help and completions need no LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "muster/program/config/config_file.h"
#include "muster/train/plan/options.h"

namespace muster::cli {

struct TrainFlags {
  train::TrainOptions train;
  train::RunFlags run;
  std::filesystem::path config;
  bool json = false;
};

/// The App of `muster train`, which writes to `flags`.
std::unique_ptr<CLI::App> train_app(TrainFlags& flags);

/// Which of them a config file may write as tables, and which are paths.
program::ConfigKinds train_config_kinds();

/// How errors of the library name what a flag of `muster train` says: {"lr-schedule", "lr schedule"}.
std::span<const program::ConfigOwner> train_config_owners();

}  // namespace muster::cli
