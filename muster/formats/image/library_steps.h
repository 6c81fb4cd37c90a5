// Calls into C libraries that leave by longjmp.
#pragma once

#include <csetjmp>

namespace muster::formats {

// Note [Errors of libjpeg and libpng]
//
// Both are C, leave a call by longjmp, and would be left half done by an exception. A jump over a C++
// object with a destructor is undefined. So each call into them is a step: a lambda that owns nothing,
// run by attempt(), where the jump ends. What is wrong is kept as bytes in the decoder, and thrown when
// the step is over. Objects that own memory are made between steps.

/// What a decoder, `File`, is made of; its error() is what went wrong in the last step.
template <class File>
class LibrarySteps {
 protected:
  /// False if the step was left by leave().
  template <class Step>
  bool attempt(const Step& step) {
    if (setjmp(escape_) != 0) return false;
    step();
    return true;
  }

  template <class Step>
  void must(const Step& step) {
    if (!attempt(step)) throw static_cast<const File*>(this)->error();
  }

  /// Within a step alone.
  [[noreturn]] void leave() { std::longjmp(escape_, 1); }

 private:
  std::jmp_buf escape_{};
};

}  // namespace muster::formats
