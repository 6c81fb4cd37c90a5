// A dataset as a user names it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/params.h"

namespace muster::formats {

/// "synthetic:samples=512", or "folder:/data/pets,size=224", where what comes first is the parameter
/// "path". Throws as parse_spec().
Spec parse_dataset_spec(std::string_view text);

/// The same text with its path, if it has one, from the root, and so the files of "test", "tokenizer" and
/// "classes": whoever goes on with a run may stand in another folder. One that begins with ~ stays, for the dataset to refuse.
std::string with_whole_path(std::string_view text);

/// Whether two such texts differ in nothing but where their files lie: the path, and those of "test",
/// "tokenizer" and "classes" that both name. Throws as parse_spec().
bool differ_in_places_alone(std::string_view one, std::string_view other);

/// Files of "test", "tokenizer" and "classes" that are not where they are said to be are looked for beside
/// `data_dir`, which stands for the path: as they lay below or beside the path, else by their names. Those that
/// are nowhere stay as they are said.
void look_beside(const std::filesystem::path& data_dir, ParamValues& params);

/// The file of "test", where it is named and not there; else "".
std::string missing_test(const ParamValues& params);

/// Files of "tokenizer" and "classes" that are not there: what they say is learned at a run's start.
std::vector<std::string> missing_taught(const ParamValues& params);

}  // namespace muster::formats
