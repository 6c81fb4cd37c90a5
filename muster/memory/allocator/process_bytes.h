// What the kernel and the C library tell of this process's memory. Private to the room.
#pragma once

#include <cstdint>
#include <string_view>

namespace muster::memory {

/// Of the C library's heap; zeros where it does not tell (sanitizers, other C libraries).
struct HeapBytes {
  int64_t in_use = 0;
  int64_t from_system = 0;  ///< addresses that it has taken, for what is in use and what is free
};

/// Takes the heap's locks and looks at its free pieces: 1 to some hundred us.
HeapBytes heap_bytes();

/// Zeros where the kernel does not tell.
struct ProcessBytes {
  int64_t resident = 0;  ///< with memory behind it
  int64_t mapped = 0;    ///< addresses, whether there is memory behind them or not
};

/// Of this process: some 5 us.
ProcessBytes process_bytes();

/// Executable addresses that no file is behind: code that was made at run time. Of the text of
/// /proc/PID/maps. Pure.
int64_t made_code_bytes_of(std::string_view maps);
/// Of this process: about 0.1 us for each of its mappings.
int64_t made_code_bytes();

}  // namespace muster::memory
