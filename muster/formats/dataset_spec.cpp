#include "muster/formats/dataset_spec.h"

#include <algorithm>
#include <filesystem>

#include "muster/base/text.h"

namespace muster::formats {
namespace {

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

}  // namespace

Spec parse_dataset_spec(std::string_view text) {
  const size_t begin = path_begin(text);
  const bool is_said = begin == std::string_view::npos || text.substr(0, begin).ends_with(kPath);
  return parse_spec(is_said ? std::string(text)
                            : concat(text.substr(0, begin), kPath, text.substr(begin)));
}

std::string with_whole_path(std::string_view text) {
  const size_t begin = path_begin(text);
  if (begin == std::string_view::npos) return std::string(text);
  const size_t end = std::min(text.find(',', begin), text.size());
  const std::filesystem::path path(trim(text.substr(begin, end - begin)));
  if (path.empty() || *path.begin() == "~") return std::string(text);  // the dataset refuses it
  return concat(text.substr(0, begin),
                std::filesystem::absolute(path).lexically_normal().string(),
                text.substr(end));
}

}  // namespace muster::formats
