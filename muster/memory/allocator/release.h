// Gives tensors back, and says what that freed and who still holds the rest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace muster::memory {

/// Memory that is still there.
struct HeldStorage {
  int64_t bytes = 0;
  /// Other handles of a tensor that was released: variables, containers, what a graph saved.
  int64_t handles = 0;
  /// Tensors that share its memory: those that were released and live on, views of them, detached
  /// ones, and what a graph saved of them.
  int64_t sharers = 0;
  std::string scope;       ///< in which the memory was allocated, if it was recorded
  std::string op;          ///< by which operator
  uint32_t iteration = 0;  ///< and when
};

struct Released {
  int64_t freed_bytes = 0;        ///< of the tensors' own memory
  std::vector<HeldStorage> held;  ///< most bytes first
  /// By how much cpu_counters() fell, graphs that went with the tensors included. Nothing without
  /// a Recording.
  std::optional<int64_t> cpu_freed_bytes;

  /// "freed 4 MiB; 1 MiB is held: 2 other handles, made in scope \"decoder\" by aten::linear".
  std::string text() const;
};

/// Makes each of the handles undefined. Memory that several of them share counts once. Counts of
/// others' handles are exact while no other thread copies or drops them.
Released release_tensors(const std::vector<at::Tensor*>& tensors);

/// C++'s `del`: release(hidden, loss).
template <class... Tensors>
Released release(Tensors&... tensors) {
  return release_tensors({&tensors...});
}

/// All of them; the list is empty afterwards.
Released release(std::vector<at::Tensor>& tensors);

}  // namespace muster::memory
