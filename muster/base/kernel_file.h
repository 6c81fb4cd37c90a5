// Files that the kernel makes up: /proc, /sys.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace muster {

/// All of it; nothing, if it is not there or cannot be read. Such files have no size, and what they
/// tell of may end between the opening and the reading (/proc/PID/stat: "no such process"), where
/// streams throw what nobody expects. Never throws but for want of memory. Any thread.
std::optional<std::string> read_kernel_file(const std::filesystem::path& path);

}  // namespace muster
