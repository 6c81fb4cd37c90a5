// What benchmarks/data/decode/run.py measures: one image file decoded again and again, from memory.
//
//     decode_speed FILE COUNT     {"whole": seconds, "region": seconds, "sum": …}, processor time of one
#include <ctime>
#include <iostream>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/formats/crc32.h"
#include "muster/formats/image/image.h"

namespace {

using namespace muster;

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

uint32_t sum_of(const formats::Image& image) {
  return formats::crc32_of(
      {reinterpret_cast<const char*>(image.pixels.get()), static_cast<size_t>(image.bytes())});
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 2;
  const std::string text = read_file(words[1]);
  const std::span<const uint8_t> file(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  const int times = std::stoi(words[2]);
  const formats::ImageHeader header = formats::read_image_header(file, words[1]);
  constexpr int64_t kSide = 224;  // of the middle
  const formats::ImageRegion region{.top = (header.height - kSide) / 2,
                                    .left = (header.width - kSide) / 2,
                                    .height = kSide,
                                    .width = kSide};
  Json out;
  uint32_t sum = 0;
  const auto measure = [&](const char* name, const auto& decode) {
    decode();
    const double start = processor_seconds();
    for (int i = 0; i < times; ++i) decode();
    out[name] = (processor_seconds() - start) / times;
    sum ^= sum_of(decode());
  };
  measure("whole", [&] { return formats::decode_image(file, words[1]); });
  measure("region", [&] { return formats::decode_image(file, words[1], region); });
  out["sum"] = sum;
  std::cout << out.dump() << '\n';
}
