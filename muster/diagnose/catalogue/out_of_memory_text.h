// The numbers in what LibTorch says when a device is out of memory. Private to the room.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace muster::diagnose {

/// "Process 4711 has 3.00 GiB memory in use."
struct MemoryOfProcess {
  int64_t pid = 0;
  double bytes = 0;
};

/// In bytes, each if the text has it.
struct OutOfMemoryText {
  std::optional<double> asked;
  std::optional<double> total;  ///< of the device
  std::optional<double> free;
  std::optional<double> allocated;  ///< by live tensors
  std::optional<double> idle;       ///< reserved by the allocator, and in no tensor
  std::optional<double> own;        ///< held by this process in all
  std::optional<double> in_pools;   ///< allocated in private pools (CUDA graphs), of `allocated`
  std::optional<double> allowed;    ///< to this process, where a share of the device was set
  bool has_own = false;             ///< `own` is the text's; else it is allocated + idle
  /// Other processes, as the driver numbers them. In a container it takes this one for another: then
  /// there is no has_own, and this one is among them.
  std::vector<MemoryOfProcess> others;
};

/// Reads the wordings of PyTorch 1.2 ("already allocated", "reserved in total") and of 2.1 and later
/// ("of which 0 bytes is free", "reserved by PyTorch but unallocated"). Pure.
OutOfMemoryText out_of_memory_text(std::string_view line);

/// "1.70 GiB", "0 bytes", "649.97 MiB" at the start of `text` in bytes; nothing for all else.
std::optional<double> read_bytes_text(std::string_view text);

}  // namespace muster::diagnose
