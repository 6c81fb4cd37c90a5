// The flags of `muster data preview`: torch-free, so that help needs no LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

namespace muster::cli {

struct PreviewFlags {
  std::string data, transform;
  std::filesystem::path data_dir, output = "preview.png";
  std::string split = "train";
  int64_t count = 4, draws = 5, seed = 0, epoch = 0;
};

/// Its App, for the words behind `preview`, which writes to `flags`.
std::unique_ptr<CLI::App> preview_app(PreviewFlags& flags);

}  // namespace muster::cli
