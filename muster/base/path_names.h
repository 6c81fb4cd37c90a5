// Which names files can have.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

#include "muster/base/error.h"

namespace muster {

/// In bytes: of a name in a path, of a whole path. Source: Linux, NAME_MAX and PATH_MAX less the 0.
inline constexpr size_t kLongestName = 255, kLongestPath = 4095;

/// Throws a usage error for a path that no file can have: a name in it, or all of it, is too long.
/// `whose`: who gave it, "--output". Pure.
void require_nameable(const std::filesystem::path& path, std::string_view whose);

/// "a/b/" as "a/b", whose last name is a name. Pure.
std::filesystem::path without_slash(const std::filesystem::path& path);

/// As make_writable_folder (file.h), but a folder that was not there is gone again.
void require_writable_folder(const std::filesystem::path& folder, std::string_view what);

/// An exception of the standard library as an environment error in our words.
Error file_system_error(const std::filesystem::filesystem_error& error);

}  // namespace muster
