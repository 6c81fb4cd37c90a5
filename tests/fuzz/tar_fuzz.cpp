// A tar archive is refused by one environment error, or its members lie in it one behind the other. The same for
// the bytes with all checksums put right, or nothing altered would come further than the first header.
#include <string>

#include "muster/base/error.h"
#include "muster/formats/tar/said_class.h"
#include "muster/formats/tar/tar_index.h"
#include "muster/formats/tar/tar_reader.h"

#include "tests/fuzz/fuzz.h"

namespace muster::fuzz {
namespace {

constexpr size_t kBlock = 512;

void put_sum_right(std::string& bytes, size_t block) {
  bytes.replace(block + 148, 8, "        ");
  unsigned sum = 0;
  for (size_t at = 0; at < kBlock; ++at) sum += static_cast<uint8_t>(bytes[block + at]);
  for (size_t at = 6; at-- > 0; sum /= 8)
    bytes[block + 148 + at] = static_cast<char>('0' + sum % 8);
}

void check_members(std::string_view bytes) {
  const formats::MemoryBytes source(bytes);
  const auto size = static_cast<int64_t>(bytes.size());
  const formats::LabelPart label("json.a");
  try {
    formats::TarReader reader(source, "fuzz");
    int64_t end = 0;
    for (formats::TarMember member; reader.next(member);) {
      require(member.header >= end && member.offset == member.header + 512, "one behind the other");
      require(member.size >= 0 && member.size <= size - member.offset,
              "contents are in the archive");
      end = member.offset + member.size;
      const auto [sample, part] = formats::sample_and_part(member.name);
      require(part.empty() || !sample.empty(), "a part is of a sample");
      if (member.size > 4096) continue;
      const std::string contents = reader.contents(member, 4096);
      require(contents == bytes.substr(static_cast<size_t>(member.offset), contents.size()),
              "contents are where the member says");
      for (const char* kind : {"cls", "json"}) {
        const formats::SaidClass said = label.read(kind, contents);
        require(said.text.empty() != said.fault.empty(), "a class, or why there is none");
      }
    }
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kEnvironment, "a bad archive is an environment error");
  }
}

}  // namespace
}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  std::string bytes(fuzz::text_of(data, size));
  fuzz::check_members(bytes);
  for (size_t block = 0; block + fuzz::kBlock <= bytes.size(); block += fuzz::kBlock)
    if (bytes.compare(block + 257, 5, "ustar") == 0) fuzz::put_sum_right(bytes, block);
  fuzz::check_members(bytes);
  return 0;
}
