// What the rank programs of benchmarks/peers share: orders from stdin of rank 0, and clocks.
#pragma once

#include <algorithm>
#include <iostream>
#include <string>

#include <ATen/ops/zeros.h>
#include <time.h>

#include "muster/distributed/process_group.h"

/// CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, …, in seconds.
inline double clock_s(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The next line of rank 0's stdin, on all ranks; empty at its end. At most 255 bytes of it.
inline std::string next_order(const muster::distributed::ProcessGroup& group) {
  constexpr int64_t kBytes = 256;
  at::Tensor bytes = at::zeros({kBytes}, at::kByte);
  auto* text = reinterpret_cast<char*>(bytes.data_ptr<uint8_t>());
  if (std::string line; group.rank() == 0 && std::getline(std::cin, line))
    std::copy_n(line.begin(), std::min<size_t>(line.size(), kBytes - 1), text);
  group.broadcast(bytes);
  return text;
}
