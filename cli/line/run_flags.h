// The flags of `muster run`: torchrun's names, resolved to a JobSpec.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/launch/job/job.h"
#include "muster/program/screen/console.h"

namespace muster::cli {

struct RunFlags {
  launch::JobSpec spec;
  std::string launcher = "local";
  bool no_prefix = false;
  std::vector<int64_t> local_ranks_filter;  ///< local ranks whose lines are shown; empty: all
};

/// Parses the words behind `muster run`. An exit code if help was printed. Throws a usage error.
std::optional<int> parse_run_flags(std::span<const std::string> args,
                                   program::Console& console,
                                   RunFlags& flags);

/// Ranks per node from "4", "auto" (GPUs if there are any, else CPUs), "gpu" or "cpu". Throws a
/// usage error.
int64_t ranks_per_node(std::string_view text, int64_t gpus, int64_t cpus);

/// "HOST:PORT", "[IPv6]:PORT" or "HOST" (port 29500, torchrun's). Throws a usage error.
std::pair<std::string, int64_t> parse_endpoint(std::string_view text);

}  // namespace muster::cli
