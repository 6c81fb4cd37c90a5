// What a run leaves when memory has run out: the report of who held it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "muster/memory/report/explain.h"

namespace muster::train {

struct MemoryReportRequest {
  c10::Device device;            ///< this rank's; the error may name another of its kind
  std::filesystem::path folder;  ///< of the run
  int rank = 0;
  int world_size = 1;
  std::vector<memory::OwnedTensor> owned;
  std::vector<memory::OwnedMemory> freed;  ///< of memory::ExplainOptions
};

/// Of the error in hand, inside a handler only. If it is of memory, memory::explain() says why, in
/// FOLDER/out_of_memory.txt and .json (of several ranks out_of_memory-rank2.txt), where the run has
/// begun to write; and what comes back goes behind the error's hint, on lines of their own: the
/// cause, and the file. Else, or if nothing can be said, "". Never throws.
std::string memory_report(const MemoryReportRequest& request) noexcept;

}  // namespace muster::train
