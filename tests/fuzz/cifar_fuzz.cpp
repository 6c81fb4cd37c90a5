// A CIFAR file is refused by one environment error, or it is the labels and pixels of its records,
// from which it can be put together again. The first byte chooses the kind; pictures are repeated
// from what follows, so that small inputs make whole records.
#include <algorithm>
#include <span>
#include <vector>

#include "muster/base/error.h"
#include "muster/formats/cifar.h"

#include "tests/fuzz/fuzz.h"

namespace muster::fuzz {
namespace {

void check_cifar(std::span<const uint8_t> file, formats::CifarKind kind) {
  formats::CifarRecords records;
  try {
    records = formats::parse_cifar(file, "fuzz", kind);
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kEnvironment, "a bad file is an environment error");
    return;
  }
  const bool is_hundred = kind == formats::CifarKind::kHundred;
  require(records.coarse_labels.size() == (is_hundred ? records.labels.size() : 0),
          "a coarse label for each fine one");
  std::vector<uint8_t> again;
  for (size_t i = 0; i < records.labels.size(); ++i) {
    require(records.labels[i] < (is_hundred ? 100 : 10), "labels are in range");
    if (is_hundred) again.push_back(records.coarse_labels[i]);
    again.push_back(records.labels[i]);
    const auto from =
        records.pixels.begin() + static_cast<ptrdiff_t>(i) * formats::kCifarImageBytes;
    again.insert(again.end(), from, from + formats::kCifarImageBytes);
  }
  require(std::vector<uint8_t>(file.begin(), file.end()) == again, "no byte is lost");
}

}  // namespace
}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  if (size == 0) return 0;
  const auto kind = data[0] % 2 == 0 ? formats::CifarKind::kTen : formats::CifarKind::kHundred;
  fuzz::check_cifar({data + 1, size - 1}, kind);
  // Behind each label, or pair of them, a picture.
  const size_t labels = kind == formats::CifarKind::kTen ? 1 : 2;
  std::vector<uint8_t> file;
  for (size_t at = 1; at + labels <= std::min<size_t>(size, 40); at += labels) {
    file.insert(file.end(), data + at, data + at + labels);
    file.insert(file.end(), formats::kCifarImageBytes, data[size - 1]);
  }
  fuzz::check_cifar(file, kind);
  return 0;
}
