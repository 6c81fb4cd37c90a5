// A dataset as a user names it.
#pragma once

#include <string>
#include <string_view>

#include "muster/base/params.h"

namespace muster::formats {

/// "synthetic:samples=512", or "folder:/data/pets,size=224", where what comes first is the parameter
/// "path". Throws as parse_spec().
Spec parse_dataset_spec(std::string_view text);

/// The same text with its path, if it has one, from the root, and so the files of "test", "tokenizer" and
/// "classes": whoever goes on with a run may stand in another folder. One that begins with ~ stays, for the dataset to refuse.
std::string with_whole_path(std::string_view text);

}  // namespace muster::formats
