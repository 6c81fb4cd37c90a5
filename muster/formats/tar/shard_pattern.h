// Shards as a user names them: "train-{000..127}.tar", "train-*.tar", a folder. Torch-free.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace muster::formats {

/// Each {a,b} and {000..127} of the pattern written out, as a shell does: numbers have as many digits as the
/// wider end says where one begins with a zero. Braces without a comma or two points stay. Throws a usage error
/// for ends of which only one is a number, and more than 100,000 names.
std::vector<std::string> expand_braces(std::string_view pattern);

/// The files of the pattern: its braces written out, in their order, and of each the files that *, ? and [] fit,
/// sorted by their bytes; or the .tar files of a folder. A file of that very name comes first. Throws a usage
/// error for a name without a file, a pattern that none fits, and a file that is there twice, an environment error
/// for a folder on the way that cannot be read.
std::vector<std::filesystem::path> find_shards(const std::string& pattern);

/// Of the training split and of the test split. No test shards: a part has to be held out.
struct ShardSplits {
  std::vector<std::filesystem::path> train, test;
};

/// With `test`, the files of both patterns. Without, the files of `pattern`; of a folder those of its folders
/// train and test, or those whose names begin with train and test (val, valid, validation), where both are
/// there. Throws as find_shards(), and a usage error for a file that is in both splits, or beside them in neither.
ShardSplits find_shard_splits(const std::string& pattern, const std::string& test);

}  // namespace muster::formats
