// What a run leaves when memory has run out: the report of who held it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "muster/memory/report/explain.h"

namespace muster::train {

struct MemoryReportRequest {
  c10::Device device;            ///< this rank's; the error may name another of its kind
  std::filesystem::path folder;  ///< of the run; empty: it has none
  bool is_ours = true;           ///< no other run's: it is made if it is not there
  int rank = 0;
  int world_size = 1;
  std::vector<memory::OwnedTensor> owned;
  std::vector<memory::OwnedMemory> freed;  ///< of memory::ExplainOptions
  /// What the report says to do about live tensors where no step is under way; empty: its own words.
  std::string smaller_batch = {};
};

/// memory::explain() of the error in hand, inside a handler only. Nothing if it is not of memory, or
/// nothing can be said. Never throws.
std::optional<memory::OomReport> explained_memory(const MemoryReportRequest& request) noexcept;

/// Writes it to FOLDER/out_of_memory.txt and .json (of several ranks out_of_memory-rank2.txt). What comes
/// back goes behind the error's hint, on lines of their own: the cause, and the file. "" if `report` is
/// null, or says nothing of a cause. Never throws.
std::string memory_lines(const MemoryReportRequest& request,
                         const memory::OomReport* report) noexcept;

}  // namespace muster::train
