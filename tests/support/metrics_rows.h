// The rows that a training leaves, without what no two runs share.
#pragma once

#include <filesystem>
#include <sstream>
#include <string>

#include "muster/base/file.h"

namespace muster::test {

/// metrics.csv of a run's folder, each row as far as its learning rate: what comes behind tells the time.
inline std::string rows_without_time(const std::filesystem::path& run) {
  std::string rows;
  std::istringstream lines(read_file(run / "metrics.csv"));
  for (std::string row; std::getline(lines, row);) {
    size_t end = 0;  // step,epoch,phase,loss,accuracy,lr
    for (int comma = 0; comma < 6; ++comma) end = row.find(',', end) + 1;
    rows += row.substr(0, end) + '\n';
  }
  return rows;
}

}  // namespace muster::test
