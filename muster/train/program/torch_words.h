// Errors of LibTorch and of the standard library in a user's words.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "muster/base/error.h"
#include "muster/base/host_memory.h"
#include "muster/base/text.h"

namespace muster::train {

inline constexpr const char* kOneDnnHint =
    "on a virtual machine set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16; else take another --precision "
    "(lstm has no float16)";

inline bool is_of_one_dnn(const std::string& text) {
  return text.find("could not create a primitive") != std::string::npos;
}

/// What to do where the host has no memory left; names the limit that `ulimit -v` sets.
inline std::string host_memory_hint() {
  std::string hint = "take a smaller batch, less data or a smaller model";
  if (const auto addresses = limited_addresses())
    hint += concat(
        "; `ulimit -v` allows this process ", human_bytes(addresses->limit_bytes), " of addresses");
  return hint;
}

/// Runs a command: what LibTorch throws becomes an error of ours.
template <class Command>
int in_torch_words(Command&& command) {
  try {
    return std::forward<Command>(command)();
  } catch (const c10::Error& error) {
    // Without its forty lines of addresses.
    const std::string text = error.what_without_backtrace();
    const bool is_memory = text.find("DefaultCPUAllocator") != std::string::npos;
    throw environment_error(
        {.refused = concat("LibTorch: ", text), .hint = is_memory ? host_memory_hint() : ""});
  } catch (const Error& error) {  // perhaps a task's, around it
    if (!is_of_one_dnn(error.what()) || !error.text().hint.empty()) throw;
    ErrorText text = error.text();
    text.hint = kOneDnnHint;
    throw Error(error.kind(), text);
  } catch (const std::bad_alloc& error) {
    throw environment_error({.refused = "the host's memory",
                             .rule = concat("no room is left in it (", error.what(), ")"),
                             .hint = host_memory_hint()});
  } catch (const std::exception& error) {
    const std::string text = error.what();
    if (!is_of_one_dnn(text)) throw;
    throw environment_error({.refused = "oneDNN: " + text, .hint = kOneDnnHint});
  }
}

}  // namespace muster::train
