#include "muster/formats/cifar.h"

#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"

namespace muster::formats {
namespace {

Error damaged_cifar(std::string_view name, std::string rule, std::string value) {
  return environment_error({.refused = concat("damaged CIFAR file ", name),
                            .rule = std::move(rule),
                            .value = std::move(value),
                            .hint = "get the file again; it is one of the binary version (.bin)"});
}

}  // namespace

CifarRecords parse_cifar(std::span<const uint8_t> file, std::string_view name, CifarKind kind) {
  const bool is_hundred = kind == CifarKind::kHundred;
  const size_t labels = is_hundred ? 2 : 1;
  const size_t record = labels + kCifarImageBytes;
  if (file.empty() || file.size() % record != 0) {
    throw damaged_cifar(
        name,
        concat("it is records of ", record, " bytes"),
        concat(file.size(), " bytes, ", file.size() % record, " behind the last record"));
  }
  CifarRecords out;
  const size_t count = file.size() / record;
  out.labels.reserve(count);
  out.pixels.reserve(count * kCifarImageBytes);
  const auto take_label =
      [&](size_t at, int most, std::string_view what, std::vector<uint8_t>& to) {
        if (file[at] > most) {
          throw damaged_cifar(name,
                              concat(what, "labels run from 0 to ", most),
                              concat(int{file[at]}, " in record ", at / record, ", byte ", at));
        }
        to.push_back(file[at]);
      };
  for (size_t at = 0; at < file.size(); at += record) {
    if (is_hundred) take_label(at, 19, "coarse ", out.coarse_labels);
    take_label(at + labels - 1, is_hundred ? 99 : 9, is_hundred ? "fine " : "", out.labels);
    const auto from = file.begin() + static_cast<ptrdiff_t>(at + labels);
    out.pixels.insert(out.pixels.end(), from, from + kCifarImageBytes);
  }
  return out;
}

CifarRecords read_cifar(const std::filesystem::path& path, CifarKind kind) {
  const std::string file = read_file(path);
  return parse_cifar(
      {reinterpret_cast<const uint8_t*>(file.data()), file.size()}, path.string(), kind);
}

}  // namespace muster::formats
