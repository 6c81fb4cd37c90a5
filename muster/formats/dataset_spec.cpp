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

namespace {

/// The same path from the root; nothing, and one that begins with ~, stay.
std::string whole(std::string_view said) {
  const std::filesystem::path path(trim(said));
  if (path.empty() || *path.begin() == "~") return std::string(said);  // the dataset refuses it
  return std::filesystem::absolute(path).lexically_normal().string();
}

/// Parameters that are files, besides the path.
constexpr std::string_view kFiles[] = {"test=", "tokenizer=", "classes="};

/// "tokenizer=basic_english" is none, and the "classes" of others than tar are a number.
bool is_file(std::string_view said) { return trim(said) != "basic_english" && !to_int(trim(said)); }

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
      if (part.starts_with(file) && is_file(part.substr(file.size()))) begin = file.size();
    out += part.substr(0, begin);
    out += whole(part.substr(begin));
    if (end < text.size()) out += ',';
    at = end + 1;
  }
  return out;
}

}  // namespace muster::formats
