// The step from `muster` to its sibling `muster-torch`.
#pragma once

#include <span>
#include <string>

namespace muster::cli {

/// Replaces this process by `muster-torch COMMAND ARGS`; does not return. Throws an environment
/// error if the sibling is not beside this executable.
[[noreturn]] void exec_torch(const std::string& command, std::span<const std::string> args);

}  // namespace muster::cli
