// A safetensors file is refused by one usage error, or its header is one that our writer can write
// and our reader reads as the same, and every tensor lies within the file.
#include <string>

#include "muster/base/error.h"
#include "muster/formats/safetensors_header.h"

#include "tests/fuzz/fuzz.h"

namespace muster::fuzz {
namespace {

void check_places(const formats::SafetensorsHeader& header, std::string_view file) {
  uint64_t bytes = 0;
  unsigned sum = 0;
  for (const formats::SafetensorsTensor& tensor : header.tensors) {
    bytes += tensor.end - tensor.begin;
    for (uint64_t at = tensor.begin; at < tensor.end; ++at)
      sum += static_cast<unsigned char>(file[header.data_begin + at]);
  }
  require(header.data_begin + bytes == file.size(), "the tensors cover the file");
  require(sum <= 255 * bytes, "bytes were read");
}

void check_round_trip(formats::SafetensorsHeader header) {
  const std::string head = formats::lay_out_safetensors(header);
  uint64_t bytes = 0;
  for (const formats::SafetensorsTensor& tensor : header.tensors)
    bytes += tensor.end - tensor.begin;
  require(head.size() % 8 == 0, "the data is aligned");
  require(formats::parse_safetensors_header(head + std::string(bytes, 'x'), "again") == header,
          "what was written reads back");
}

}  // namespace
}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  const std::string_view file = fuzz::text_of(data, size);
  formats::SafetensorsHeader header;
  try {
    header = formats::parse_safetensors_header(file, "fuzz");
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kUsage, "a bad file is a usage error");
    return 0;
  }
  fuzz::check_places(header, file);
  fuzz::check_round_trip(std::move(header));
  return 0;
}
