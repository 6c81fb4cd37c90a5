#include "muster/formats/dataset_spec.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/path_names.h"
#include "muster/base/text.h"

namespace muster::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPath = "path=";

/// Where the path of "folder:/data/pets,size=224" begins, without or with "path="; npos: it has none.
size_t path_begin(std::string_view text) {
  const size_t name = text.find(':');
  if (name == std::string_view::npos) return name;
  const std::string_view first = text.substr(name + 1, text.find(',', name) - name - 1);
  if (!trim(first).empty() && first.find('=') == std::string_view::npos) return name + 1;
  for (size_t at = name; at != std::string_view::npos; at = text.find(',', at + 1)) {
    if (text.substr(at + 1).starts_with(kPath)) return at + 1 + kPath.size();
  }
  return std::string_view::npos;
}

/// "a-{b,c}.tar": to the spec that comma is one between parameters.
bool has_list_in_braces(std::string_view text) {
  size_t open = text.find('{');
  while (open != std::string_view::npos) {
    const size_t close = text.find('}', open);
    if (close == std::string_view::npos) return false;
    if (text.substr(open, close - open).find(',') != std::string_view::npos) return true;
    open = text.find('{', close);
  }
  return false;
}

}  // namespace

Spec parse_dataset_spec(std::string_view text) {
  const size_t begin = path_begin(text);
  const bool is_said = begin == std::string_view::npos || text.substr(0, begin).ends_with(kPath);
  try {
    return parse_spec(is_said ? std::string(text)
                              : concat(text.substr(0, begin), kPath, text.substr(begin)));
  } catch (const Error& error) {
    if (!has_list_in_braces(text)) throw;
    ErrorText said = error.text();
    said.hint =
        "a comma ends a value, in braces too. Several tar shards are a-{0..9}.tar, a-*.tar, "
        "a-?.tar, a-[bc].tar or a folder, and a list in braces is taken by --data-dir";
    throw usage_error(std::move(said));
  }
}

namespace {

/// The same path from the root; nothing, and one that begins with ~, stay.
std::string whole(std::string_view said) {
  const std::filesystem::path path(trim(said));
  if (path.empty() || *path.begin() == "~") return std::string(said);  // the dataset refuses it
  return std::filesystem::absolute(path).lexically_normal().string();
}

/// Parameters that are files, besides the path.
constexpr std::string_view kFiles[] = {"test", "tokenizer", "classes"};

/// "tokenizer=basic_english" is none, and the "classes" of others than tar are a number.
bool is_file(std::string_view said) { return trim(said) != "basic_english" && !to_int(trim(said)); }

/// Or something that a pattern may mean: 'held-{0..3}.tar'.
bool is_there(const fs::path& path) {
  std::error_code ignored;
  if (fs::exists(path, ignored)) return true;
  const std::string text = path.string(), before = text.substr(0, text.find_first_of("*?{["));
  if (before == text) return false;
  const fs::path prefix(before);
  const std::string begin = prefix.filename().string();
  const fs::path folder = prefix.has_parent_path() ? prefix.parent_path() : fs::path(".");
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    if (at->path().filename().string().starts_with(begin)) return true;
  }
  return false;
}

/// Where a file may lie that lay below or beside `before`, which is `now`.
std::vector<fs::path> places_beside(const fs::path& file,
                                    const fs::path& before,
                                    const fs::path& now) {
  std::vector<fs::path> places;
  const auto as_below = [&](const fs::path& old_folder, const fs::path& folder) {
    const fs::path below = file.lexically_relative(old_folder);
    if (!below.empty() && *below.begin() != "..") places.push_back(folder / below);
  };
  if (!before.empty()) {
    as_below(before, now);
    as_below(before.parent_path(), now.parent_path());
  }
  places.push_back(now.parent_path() / file.filename());
  return places;
}

/// The parameter's file, where it has one that is not there; else "".
std::string missing_file(const ParamValues& params, std::string_view name) {
  const auto said = params.find(name);
  const bool is_missing =
      said != params.end() && is_file(said->second) && !is_there(trim(said->second));
  return is_missing ? said->second : "";
}

}  // namespace

std::string with_whole_path(std::string_view text) {
  const size_t name = text.find(':'), path = path_begin(text);
  if (name == std::string_view::npos) return std::string(text);
  std::string out(text.substr(0, name + 1));
  for (size_t at = name + 1; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    std::string_view part = text.substr(at, end - at);
    size_t begin = path >= at && path <= end ? path - at : part.size();
    for (const std::string_view file : kFiles)
      if (part.starts_with(concat(file, '=')) && is_file(part.substr(file.size() + 1)))
        begin = file.size() + 1;
    out += part.substr(0, begin);
    out += whole(part.substr(begin));
    if (end < text.size()) out += ',';
    at = end + 1;
  }
  return out;
}

bool differ_in_places_alone(std::string_view one, std::string_view other) {
  Spec before = parse_dataset_spec(one), now = parse_dataset_spec(other);
  before.params.erase("path");
  now.params.erase("path");
  for (const std::string_view file : kFiles) {
    const auto then = before.params.find(file), after = now.params.find(file);
    const bool are_files = then != before.params.end() && after != now.params.end() &&
                           is_file(then->second) && is_file(after->second);
    if (are_files) after->second = then->second;
  }
  return before.name == now.name && before.params == now.params;
}

void look_beside(const fs::path& data_dir, ParamValues& params) {
  if (data_dir.empty()) return;
  const auto path = params.find("path");
  const fs::path before =
      path == params.end() ? fs::path() : without_slash(std::string(trim(path->second)));
  for (const std::string_view name : kFiles) {
    const std::string missing = missing_file(params, name);
    if (missing.empty()) continue;
    for (const fs::path& place :
         places_beside(std::string(trim(missing)), before, without_slash(data_dir))) {
      if (!is_there(place)) continue;
      params.find(name)->second = place.string();
      break;
    }
  }
}

std::string missing_test(const ParamValues& params) { return missing_file(params, "test"); }

std::vector<std::string> missing_taught(const ParamValues& params) {
  std::vector<std::string> missing;
  for (const char* name : {"tokenizer", "classes"}) {
    std::string file = missing_file(params, name);
    if (!file.empty()) missing.push_back(std::move(file));
  }
  return missing;
}

}  // namespace muster::formats
