// Names of the files that belong to a study.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace muster::tune {

/// A study's name as a part of a file's name: letters that such a one should not have are %XX, and
/// what is too long ends in a number of its own. Never empty, "." or "..". Pure.
std::string file_part(std::string_view study);

/// A file beside the storage that belongs to one of its studies: STORAGE.<study>.<kind>, the same
/// under whatever name the storage is reached.
std::filesystem::path file_of_study(const std::filesystem::path& storage,
                                    std::string_view study,
                                    std::string_view kind);

}  // namespace muster::tune
