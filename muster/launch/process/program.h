// Finding the program of a job.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace muster::launch {

/// The file that the shell would start for `name`: `name` itself if it has a slash, else the first
/// executable in the folders of `path` (the value of PATH; an empty part is the working folder).
/// Throws a usage error that says what is wrong: not found, a folder, not executable.
std::filesystem::path find_program(const std::string& name, std::string_view path);

/// Words for an exec that failed: "is not a program …" with a hint. `errno_value` is execve's.
std::string exec_failure(const std::filesystem::path& program, int errno_value);

}  // namespace muster::launch
