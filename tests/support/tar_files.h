// Tar archives made by hand, member by member.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "muster/base/file.h"

namespace muster::test {

/// A block of 512 bytes, its checksum right.
inline std::string tar_header(std::string_view name,
                              uint64_t size,
                              char type = '0',
                              std::string_view magic = std::string_view("ustar\0"
                                                                        "00",
                                                                        8)) {
  std::string block(512, '\0');
  const auto put = [&](size_t at, std::string_view text) { block.replace(at, text.size(), text); };
  put(0, name.substr(0, 100));
  put(100, "0000644");
  char digits[16];
  std::snprintf(digits, sizeof(digits), "%011llo", static_cast<unsigned long long>(size));
  put(124, digits);
  put(148, "        ");
  block[156] = type;
  put(257, magic);
  unsigned sum = 0;
  for (const char byte : block) sum += static_cast<uint8_t>(byte);
  std::snprintf(digits, sizeof(digits), "%06o", sum);
  put(148, std::string_view(digits, 7));
  return block;
}

inline std::string tar_member(std::string_view name, std::string_view contents, char type = '0') {
  const size_t behind = (512 - contents.size() % 512) % 512;
  return tar_header(name, contents.size(), type) + std::string(contents) +
         std::string(behind, '\0');
}

inline std::string tar_end() { return std::string(1024, '\0'); }

/// An archive that grows in memory.
class TarFile {
 public:
  TarFile& add(std::string_view name, std::string_view contents, char type = '0') {
    bytes_ += tar_member(name, contents, type);
    return *this;
  }
  /// A sample: an image file of tests/golden/images/input, and its class.
  TarFile& sample(const std::string& name,
                  const std::filesystem::path& image,
                  std::string_view label) {
    add(name + image.extension().string(), read_file(image));
    return add(name + ".cls", label);
  }
  std::string bytes() const { return bytes_ + tar_end(); }
  void write(const std::filesystem::path& path) const {
    std::filesystem::create_directories(path.parent_path());
    write_file_atomic(path, bytes());
  }

 private:
  std::string bytes_;
};

}  // namespace muster::test
