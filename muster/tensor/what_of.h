// The words of an exception, whoever threw it.
#pragma once

#include <exception>
#include <string>

namespace muster::tensor {

/// what() of the exception; LibTorch's without its backtrace.
std::string what_of(const std::exception_ptr& error);

}  // namespace muster::tensor
