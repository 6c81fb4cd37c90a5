// The memory of this process, as the kernel counts it: for the benchmarks that compare peaks.
#pragma once

#include <fstream>
#include <string>
#include <string_view>

/// A field of /proc/self/status in MiB: VmRSS, VmHWM (its peak), ….
inline double status_mib(std::string_view field) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(field) && line[field.size()] == ':')
      return std::stod(line.substr(field.size() + 1)) / 1024;
  return -1;
}
