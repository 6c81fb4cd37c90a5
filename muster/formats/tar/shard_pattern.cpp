#include "muster/formats/tar/shard_pattern.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <errno.h>
#include <glob.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/formats/there_is.h"

namespace muster::formats {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostShards = 100'000;

[[noreturn]] void refuse_pattern(std::string_view pattern,
                                 std::string rule,
                                 std::string value = "",
                                 std::string hint = "") {
  throw usage_error({.refused = concat("tar shards ", pattern),
                     .rule = std::move(rule),
                     .value = std::move(value),
                     .hint = std::move(hint)});
}

std::string padded(int64_t number, size_t digits) {
  std::string text = std::to_string(number);
  return std::string(digits - std::min(digits, text.size()), '0') + text;
}

bool are_digits(std::string_view text) {
  return !text.empty() && text.size() <= 18 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// What stands for "000..127", for "a,b", or nothing where the braces are letters like others.
std::optional<std::vector<std::string>> alternatives(std::string_view inside,
                                                     std::string_view pattern) {
  if (inside.find(',') != std::string_view::npos) return split(inside, ',');
  const size_t dots = inside.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const std::string_view first = inside.substr(0, dots), last = inside.substr(dots + 2);
  if (!are_digits(first) || !are_digits(last))
    refuse_pattern(pattern, "{FIRST..LAST} are two numbers", concat('{', inside, '}'));
  const bool is_padded =
      (first[0] == '0' && first.size() > 1) || (last[0] == '0' && last.size() > 1);
  const size_t digits = is_padded ? std::max(first.size(), last.size()) : 1;
  const int64_t begin = *to_int(first), end = *to_int(last), step = begin <= end ? 1 : -1;
  if ((end - begin) * step >= static_cast<int64_t>(kMostShards))
    refuse_pattern(pattern, concat("at most ", kMostShards, " shards"), concat('{', inside, '}'));
  std::vector<std::string> names;
  for (int64_t number = begin;; number += step) {
    names.push_back(padded(number, digits));
    if (number == end) return names;
  }
}

/// A folder that glob() could not read, and why.
struct UnreadFolder {
  std::string path;
  int error = 0;
};

/// glob() says it by a function alone. The first one counts; what is no folder or is gone is none.
thread_local UnreadFolder unread_folder;
int note_unread_folder(const char* path, int error) {
  if (error != ENOTDIR && error != ENOENT && unread_folder.error == 0)
    unread_folder = {.path = path, .error = error};
  return 0;
}

[[noreturn]] void refuse_unread(const std::string& pattern, const UnreadFolder& folder) {
  throw environment_error(
      {.refused = concat("tar shards ", pattern),
       .rule = "each folder that the pattern leads to can be read",
       .value = concat(folder.path.empty() ? "." : folder.path, ": ", errno_text(folder.error)),
       .hint = "a narrower pattern leaves it out"});
}

/// What glob() finds for the pattern or a beginning of it, in any order.
std::vector<fs::path> globbed(const std::string& beginning, const std::string& pattern) {
  glob_t found{};
  unread_folder = {};
  const int status = ::glob(beginning.c_str(), GLOB_NOSORT, &note_unread_folder, &found);
  std::vector<fs::path> files;
  if (status == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (unread_folder.error != 0) refuse_unread(pattern, unread_folder);
  if (status != 0 && status != GLOB_NOMATCH) {
    throw environment_error({.refused = concat("tar shards ", pattern),
                             .rule = "memory for the names that the pattern fits"});
  }
  return files;
}

/// The one name that a part of a pattern stands for, its escapes undone; nothing where it may stand for several.
std::optional<std::string> only_name(std::string_view part) {
  std::string name;
  for (size_t i = 0; i < part.size(); ++i) {
    const char c = part[i];
    const bool is_set = c == '[' && part.find(']', i) != std::string_view::npos;
    if (c == '*' || c == '?' || is_set) return std::nullopt;
    if (c == '\\' && i + 1 < part.size()) ++i;
    name += part[i];
  }
  return name;
}

/// glob() reads the folders in which it tries a part with a wildcard, and says where it cannot. For a name without
/// one it only looks whether it is there, and where it may not look it says nothing.
void require_looks(const std::string& pattern) {
  bool has_wildcard = false;  // before this part
  for (size_t begin = 0; begin < pattern.size();) {
    const size_t end = std::min(pattern.find('/', begin), pattern.size());
    const auto name = only_name(std::string_view(pattern).substr(begin, end - begin));
    if (has_wildcard && name && !name->empty()) {
      for (const fs::path& folder : globbed(pattern.substr(0, begin - 1), pattern)) {
        std::error_code failed;  // also where it is not there, which is none
        const fs::file_status status = fs::symlink_status(folder / *name, failed);
        if (status.type() == fs::file_type::none && failed != std::errc::filename_too_long)
          refuse_unread(pattern, {.path = folder.string(), .error = failed.value()});
      }
    }
    has_wildcard = has_wildcard || !name;
    begin = end + 1;
  }
}

/// The names that a pattern of the file system fits, sorted by their bytes. Throws an environment error where a
/// folder that may hold some cannot be read: they would be missing, and nobody would know.
std::vector<fs::path> files_that_fit(const std::string& pattern) {
  std::vector<fs::path> files = globbed(pattern, pattern);
  require_looks(pattern);
  std::ranges::sort(files, {}, [](const fs::path& file) { return file.native(); });
  return files;
}

std::vector<fs::path> tars_of_folder(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
    if (at->path().extension() == ".tar") files.push_back(at->path());
  if (failed) {
    throw environment_error({.refused = concat("folder ", folder.string()),
                             .rule = "it can be read",
                             .value = errno_text(failed.value())});
  }
  std::ranges::sort(files, {}, [](const fs::path& file) { return file.native(); });
  return files;
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

constexpr std::string_view kTestWords[] = {"test", "val", "valid", "validation"};

/// By the folders train and test of a folder, or by how the names in it begin. Nothing where it has no splits.
std::optional<ShardSplits> splits_of_folder(const fs::path& folder) {
  if (is_folder(folder / "train")) {
    for (const std::string_view word : kTestWords)
      if (is_folder(folder / word))
        return ShardSplits{find_shards(folder / "train"), find_shards(folder / word)};
  }
  ShardSplits splits;
  std::vector<fs::path> others;
  std::array<std::vector<fs::path>, std::size(kTestWords)> of_word;
  for (const fs::path& file : tars_of_folder(folder)) {
    const std::string name = file.filename().string();
    // "valid-0.tar" is none of "val".
    const std::string word = name.substr(0, name.find_first_of("-_.0123456789"));
    const auto* const test = std::ranges::find(kTestWords, word);
    (word == "train"                ? splits.train
     : test != std::end(kTestWords) ? of_word[static_cast<size_t>(test - kTestWords)]
                                    : others)
        .push_back(file);
  }
  for (std::vector<fs::path>& files : of_word)
    if (splits.test.empty()) splits.test = std::move(files);
  if (splits.train.empty() || splits.test.empty()) return std::nullopt;
  if (others.empty()) return splits;
  refuse_pattern(folder.string(),
                 "where names begin with train and test, all do",
                 others[0].filename().string(),
                 "name the shards of each split: tar:PATTERN,test=PATTERN");
}

void refuse_twice(const std::string& pattern, const std::vector<fs::path>& files) {
  std::set<fs::path> seen;
  for (const fs::path& file : files)
    if (!seen.insert(file.lexically_normal()).second)
      refuse_pattern(pattern, "each shard is named once", file.string());
}

/// The same file has many names: "shards/0.tar", "./shards/0.tar", and those of links to it.
fs::path file_behind(const fs::path& shard) {
  std::error_code failed;
  fs::path real = fs::canonical(shard, failed);
  return failed ? shard : real;
}

/// What a model is trained with tells nothing of it in a test.
ShardSplits without_shared(const std::string& pattern, ShardSplits splits) {
  std::map<fs::path, fs::path> train;
  for (const fs::path& shard : splits.train) train.emplace(file_behind(shard), shard);
  for (const fs::path& shard : splits.test) {
    const auto same = train.find(file_behind(shard));
    if (same == train.end()) continue;
    refuse_pattern(pattern,
                   "a shard is of the training or of the test split",
                   same->second == shard
                       ? shard.string()
                       : concat(shard.string(), ", which is ", same->second.string()));
  }
  return splits;
}

}  // namespace

std::vector<std::string> expand_braces(std::string_view pattern) {
  std::vector<std::string> names{""};
  for (size_t at = 0; at < pattern.size();) {
    const size_t open = std::min(pattern.find('{', at), pattern.size());
    const size_t close = pattern.find('}', open);
    std::vector<std::string> parts{std::string(pattern.substr(at, open - at))};
    at = open;
    if (parts[0].empty()) {
      const bool is_closed = close != std::string_view::npos;
      const auto chosen = is_closed
                              ? alternatives(pattern.substr(open + 1, close - open - 1), pattern)
                              : std::nullopt;
      parts = chosen ? *chosen : std::vector<std::string>{"{"};
      at = chosen ? close + 1 : open + 1;
    }
    if (names.size() * parts.size() > kMostShards)
      refuse_pattern(pattern, concat("at most ", kMostShards, " shards"));
    std::vector<std::string> longer;
    for (const std::string& name : names)
      for (const std::string& part : parts) longer.push_back(name + part);
    names = std::move(longer);
  }
  return names;
}

std::vector<fs::path> find_shards(const std::string& pattern) {
  if (is_folder(pattern)) {
    std::vector<fs::path> files = tars_of_folder(pattern);
    if (files.empty()) refuse_pattern(pattern, "the folder has a file that ends in .tar");
    return files;
  }
  if (there_is(pattern)) return {pattern};
  std::vector<fs::path> files;
  for (const std::string& name : expand_braces(pattern)) {
    if (there_is(name)) {
      files.emplace_back(name);
      continue;
    }
    const std::vector<fs::path> fitting = files_that_fit(name);
    if (fitting.empty()) {
      refuse_pattern(pattern,
                     name.find_first_of("*?[") == std::string::npos ? "there is no such file"
                                                                    : "a file fits the pattern",
                     name,
                     "tar:DIR/train-{000..127}.tar or tar:DIR/train-*.tar, in quotes, so that the "
                     "shell leaves it as it is");
    }
    files.insert(files.end(), fitting.begin(), fitting.end());
  }
  refuse_twice(pattern, files);
  return files;
}

ShardSplits find_shard_splits(const std::string& pattern, const std::string& test) {
  if (test.empty()) {
    if (is_folder(pattern))
      if (auto splits = splits_of_folder(pattern))
        return without_shared(pattern, *std::move(splits));
    return {.train = find_shards(pattern)};
  }
  return without_shared(pattern, {.train = find_shards(pattern), .test = find_shards(test)});
}

}  // namespace muster::formats
