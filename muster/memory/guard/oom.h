// Which errors mean that memory ran out, and whether the same work may fit when it is asked for again.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

namespace muster::memory {

// Note [Errors of memory]
// LibTorch has a type for it, c10::OutOfMemoryError, and not all of its errors are of that type: the
// CPU's allocator throws a plain c10::Error, a kernel's launch a c10::AcceleratorError with CUDA's
// code 2, cuBLAS and cuDNN their own sentences, the standard library std::bad_alloc. Others wrap what
// they caught. So it is looked for in this order: the type, the code, the same in what is nested inside,
// and then the sentences known from LibTorch's sources: what is around a nested error quotes it. A
// sentence that may mean something else as well (CUBLAS_STATUS_NOT_INITIALIZED: an earlier bad index,
// too) is not among them: who splits a batch because of it hides the cause.

/// What an error says of memory that ran out; bytes where its text has them.
struct OutOfMemory {
  std::string words;  ///< its first line, without a backtrace
  /// What the errors around it say before its words: "backward of stage 1"; mostly empty.
  std::string where;
  std::optional<double> asked;
  std::optional<double> free;  ///< of the device
  std::optional<double> idle;  ///< held by the allocator, in no tensor

  /// There was room for what was asked for, in pieces or behind work that the device had not ended
  /// yet: the same may pass when the device is waited for and idle memory is given back.
  /// False where the text has no bytes: then the memory was full.
  bool may_pass_again() const { return asked && *asked <= free.value_or(0) + idle.value_or(0); }

  /// "backward of stage 1: CUDA out of memory. Tried to …"
  std::string text() const { return where.empty() ? words : where + ": " + words; }
};

/// Nothing for any other error, for null, and for what another rank has told of its own memory.
std::optional<OutOfMemory> out_of_memory_in(const std::exception_ptr& error);
std::optional<OutOfMemory> out_of_memory_in(const std::exception& error);

inline bool is_oom(const std::exception_ptr& error) { return out_of_memory_in(error).has_value(); }
inline bool is_oom(const std::exception& error) { return out_of_memory_in(error).has_value(); }

/// Another rank's memory ran out, which has told this one (distributed::PeerFailure).
bool is_oom_of_peer(const std::exception_ptr& error);

}  // namespace muster::memory
