#include "muster/formats/tar/tar_images.h"

#include <algorithm>
#include <optional>
#include <set>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/formats/tar/byte_source.h"
#include "muster/formats/utf8.h"

namespace muster::formats {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostNumberedClasses = 100'000;
constexpr uintmax_t kMostNamesBytes = 16 << 20;

std::string said_at(const TarIndex& index, const TarImage& image) {
  return concat('"', image.said, "\" of ", index.place_of(image));
}

[[noreturn]] void refuse_classes(const TarIndex& index, std::string rule, std::string value) {
  throw environment_error({.refused = concat("classes of tar shards ", index.title()),
                           .rule = std::move(rule),
                           .value = std::move(value),
                           .hint =
                               "classes=FILE, a name a line, says which ones there are; samples "
                               "of other classes are bad then"});
}

TarClasses numbered_classes(const TarIndex& index) {
  TarClasses out;
  for (const TarImage& image : index.images) {
    const int64_t number = to_int(image.said).value_or(-1);
    if (number < 0 || number >= kMostNumberedClasses)
      refuse_classes(index,
                     concat("numbers of classes are 0 … ", kMostNumberedClasses - 1),
                     said_at(index, image));
    out.count = std::max(out.count, number + 1);
  }
  return out;
}

/// "0, 1, 2, …", or names.
std::string class_list(const TarClasses& classes) {
  constexpr size_t kClassesNamed = 12;
  if (classes.names.empty()) return concat("0 … ", classes.count - 1);
  const size_t shown = std::min(classes.names.size(), kClassesNamed);
  const std::vector<std::string> first(classes.names.begin(),
                                       classes.names.begin() + static_cast<ptrdiff_t>(shown));
  return concat(join(first, ", "), classes.names.size() > shown ? ", …" : "");
}

std::string why_no_class(const std::string& said, const TarClasses& classes) {
  return concat("its class \"", said, "\" is none of ", class_list(classes));
}

/// Classes without a sample, of those that numbers say.
std::string empty_classes(const TarIndex& index) {
  int64_t count = 0;
  for (const TarImage& image : index.images) count = std::max(count, image.label + 1);
  std::vector<char> has(static_cast<size_t>(count));
  for (const TarImage& image : index.images)
    if (image.label >= 0) has[static_cast<size_t>(image.label)] = 1;
  const auto empty = std::ranges::count(has, 0);
  if (empty == 0) return "";
  const auto first = std::ranges::find(has, 0) - has.begin();
  return concat(empty,
                empty == 1 ? " class has" : " classes have",
                " no sample in ",
                index.title(),
                ": ",
                first,
                empty > 1 ? ", …" : "");
}

}  // namespace

TarClasses classes_in(const TarIndex& index) {
  const TarImage* number = nullptr;
  const TarImage* text = nullptr;
  std::set<std::string> names;
  for (const TarImage& image : index.images) {
    const bool is_number = to_int(image.said).has_value();
    const TarImage*& first = is_number ? number : text;
    if (first == nullptr) first = &image;
    if (!is_number) names.insert(image.said);
    if (number != nullptr && text != nullptr)
      refuse_classes(index,
                     "all are numbers, or all are names",
                     concat(said_at(index, *number), ", and ", said_at(index, *text)));
  }
  if (number != nullptr) return numbered_classes(index);
  return {.names = {names.begin(), names.end()}, .count = static_cast<int64_t>(names.size())};
}

TarClasses read_class_names(const fs::path& path) {
  const auto refuse = [&](std::string rule, std::string value) {
    throw environment_error({.refused = concat("names of classes ", path.string()),
                             .rule = std::move(rule),
                             .value = std::move(value)});
  };
  std::error_code ignored;
  const auto bytes = fs::file_size(path, ignored);
  if (!ignored && bytes > kMostNamesBytes)
    refuse(concat("at most ", kMostNamesBytes, " bytes"), std::to_string(bytes));
  TarClasses out;
  const std::string text = read_file(path);
  for (const std::string& line : split(without_utf8_mark(text), '\n'))
    out.names.emplace_back(trim(line));
  while (!out.names.empty() && out.names.back().empty()) out.names.pop_back();
  if (out.names.empty()) refuse("it has a name in each line", "none");
  std::unordered_map<std::string, size_t> lines;
  for (size_t at = 0; at < out.names.size(); ++at) {
    if (out.names[at].empty()) refuse("it has a name in each line", concat("line ", at + 1));
    if (std::string fault = class_fault(out.names[at]); !fault.empty())
      refuse(std::move(fault), concat("line ", at + 1));
    const auto [before, is_new] = lines.emplace(out.names[at], at + 1);
    if (!is_new)
      refuse("each name is there once",
             concat('"', out.names[at], "\" in lines ", before->second, " and ", at + 1));
  }
  out.count = static_cast<int64_t>(out.names.size());
  return out;
}

void number_classes(TarIndex& index, const TarClasses& classes) {
  std::unordered_map<std::string_view, int64_t> numbers;
  for (const std::string& name : classes.names)
    numbers.emplace(name, static_cast<int64_t>(numbers.size()));
  std::erase_if(index.images, [&](TarImage& image) {
    image.label = to_int(image.said).value_or(-1);
    const auto named = numbers.find(image.said);
    if ((image.label < 0 || image.label >= classes.count) && named != numbers.end())
      image.label = named->second;
    const bool is_class = image.label >= 0 && image.label < classes.count;
    if (!is_class) index.bad.push_back({index.place_of(image), why_no_class(image.said, classes)});
    return !is_class;
  });
}

std::vector<std::string> remarks_of(const TarIndex& index) {
  std::vector<std::string> remarks =
      skipped_remark(index.bad, index.images.size(), "samples", index.title());
  if (index.left_aside > 0)
    remarks.push_back(concat(index.left_aside,
                             index.left_aside == 1 ? " sample" : " samples",
                             " with neither an image nor a class in ",
                             index.title(),
                             index.left_aside == 1 ? " is" : " are",
                             " left aside"));
  std::string empty = empty_classes(index);
  if (!empty.empty()) remarks.push_back(std::move(empty));
  return remarks;
}

TarImages::TarImages(TarIndex index, TarClasses classes)
    : index_(std::move(index)), classes_(std::move(classes)) {}

bool TarImages::has_labels() const { return !index_.images.empty() && index_.images[0].label >= 0; }

std::string TarImages::name(size_t at) const {
  const TarImage& image = index_.images[at];
  return concat(index_.shards[image.shard].path.filename().string(), ':', image.name);
}

std::string TarImages::read(size_t at) const {
  const TarImage& image = index_.images[at];
  const TarShard& shard = index_.shards[image.shard];
  const FileBytes file(shard.path);
  if (file.size() != shard.bytes) {
    throw environment_error(
        {.refused = full_name(at),
         .rule = concat("its shard stays as it was, of ", shard.bytes, " bytes"),
         .value = std::to_string(file.size())});
  }
  std::string bytes(static_cast<size_t>(image.size), '\0');
  file.read(image.offset, bytes);
  return bytes;
}

}  // namespace muster::formats
