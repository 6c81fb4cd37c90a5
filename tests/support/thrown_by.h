// What a call threw, whole: for tests of code that takes exceptions.
#pragma once

#include <exception>
#include <functional>

namespace muster::test {

/// Null if `work` ends well.
inline std::exception_ptr thrown_by(const std::function<void()>& work) {
  try {
    work();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

}  // namespace muster::test
