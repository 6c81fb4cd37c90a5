// Recorded grids of networks as problems: what make.py beside this file wrote.
#pragma once

#include <filesystem>
#include <vector>

#include "benchmarks/tune/problems.h"

namespace muster::benchmarks {

/// A problem for each `*.json` of the folder, by name. Throws where one cannot be read.
std::vector<Problem> read_table_problems(const std::filesystem::path& folder);

}  // namespace muster::benchmarks
