// The words of an exception, whoever threw it.
#pragma once

#include <exception>
#include <string>

namespace muster::tensor {

/// what() of the exception; LibTorch's without its backtrace.
std::string what_of(const std::exception_ptr& error);

/// The exception in hand, behind an Error that says `where` before its words: of the same kind if it
/// is one of ours, else of the environment. Inside a handler only.
[[noreturn]] void throw_behind(const std::string& where);

}  // namespace muster::tensor
