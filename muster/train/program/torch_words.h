// Errors of LibTorch in a user's words.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::train {

inline constexpr const char* kOneDnnHint =
    "on a virtual machine set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16; else take another --precision "
    "(lstm has no float16)";

inline bool is_of_one_dnn(const std::string& text) {
  return text.find("could not create a primitive") != std::string::npos;
}

/// Runs a command: what LibTorch throws becomes an error of ours.
template <class Command>
int in_torch_words(Command&& command) {
  try {
    return std::forward<Command>(command)();
  } catch (const c10::Error& error) {
    // Without its forty lines of addresses.
    throw environment_error({.refused = concat("LibTorch: ", error.what_without_backtrace())});
  } catch (const Error& error) {  // perhaps a task's, around it
    if (!is_of_one_dnn(error.what()) || !error.text().hint.empty()) throw;
    ErrorText text = error.text();
    text.hint = kOneDnnHint;
    throw Error(error.kind(), text);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    if (!is_of_one_dnn(text)) throw;
    throw environment_error({.refused = "oneDNN: " + text, .hint = kOneDnnHint});
  }
}

}  // namespace muster::train
