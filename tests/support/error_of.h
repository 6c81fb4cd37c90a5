// What a call threw, for tests of errors.
#pragma once

#include <exception>
#include <string>

#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::test {

inline constexpr const char* kNoError = "no error";

/// what() of the exception, of any type, that `callable` ends with; kNoError if it ends well. Also
/// for threads and loops in which no error is the expected end.
template <class Callable>
std::string error_of(Callable&& callable) {
  try {
    callable();
  } catch (const std::exception& error) {
    return error.what();
  }
  return kNoError;
}

/// The error of ours that `callable` ends with. The test fails if there is none; other exceptions
/// pass through.
template <class Callable>
Error muster_error_of(Callable&& callable) {
  try {
    callable();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << kNoError;
  return internal_error({.refused = kNoError});
}

/// Its text; the test also fails if the error is not of that kind.
template <class Callable>
std::string refusal_of(Callable&& callable, ErrorKind kind = ErrorKind::kUsage) {
  const Error error = muster_error_of(callable);
  EXPECT_EQ(error.kind(), kind) << error.what();
  return error.what();
}

}  // namespace muster::test
