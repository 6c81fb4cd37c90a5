// The numbers in what LibTorch says when a device is out of memory. Private to the room.
#pragma once

#include <optional>
#include <string_view>

namespace muster::diagnose {

/// In bytes, each if the text has it.
struct OutOfMemoryText {
  std::optional<double> asked;
  std::optional<double> total;  ///< of the device
  std::optional<double> free;
  std::optional<double> allocated;  ///< by live tensors
  std::optional<double> idle;       ///< reserved by the allocator, and in no tensor
  std::optional<double> own;        ///< held by this process in all
};

/// Reads the wordings of PyTorch 1.2 ("already allocated", "reserved in total") and of 2.1 and later
/// ("of which 0 bytes is free", "reserved by PyTorch but unallocated"). Pure.
OutOfMemoryText out_of_memory_text(std::string_view line);

/// "1.70 GiB", "0 bytes", "649.97 MiB" at the start of `text` in bytes; nothing for all else.
std::optional<double> read_bytes_text(std::string_view text);

}  // namespace muster::diagnose
