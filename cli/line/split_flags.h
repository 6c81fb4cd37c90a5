// The flags of `muster data split`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

namespace muster::cli {

struct SplitFlags {
  std::string data, ratio = "0.8,0.1,0.1";
  std::filesystem::path data_dir, output;
  int64_t seed = 0;
  bool copy = false;
  std::string shard_size;
};

/// Its App, for the words behind `split`, which writes to `flags`.
std::unique_ptr<CLI::App> split_app(SplitFlags& flags);

}  // namespace muster::cli
