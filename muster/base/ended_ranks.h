// Which ranks of this machine have ended, as their launcher saw it. Both sides, `launch` and
// `distributed`, know the place from here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace muster {

/// Names the folder of the marks. `muster run` sets it where it keeps logs.
inline constexpr std::string_view kEndedRanksEnv = "MUSTER_ENDED_RANKS";

/// The file that is there once the process of `rank` has ended, however it did. A job that a rank
/// starts inherits the variable, but has a MASTER_PORT of its own.
std::filesystem::path ended_mark(const std::filesystem::path& folder,
                                 int64_t master_port,
                                 int64_t rank);

/// Whether the launcher of this process has seen the end of `rank`. False where it says nothing: of
/// ranks on other machines, and under other launchers. Throws nothing.
bool has_ended(int64_t master_port, int64_t rank);

}  // namespace muster
