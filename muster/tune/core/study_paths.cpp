#include "muster/tune/core/study_paths.h"

#include <cctype>
#include <cstdint>
#include <system_error>

#include "muster/base/text.h"

namespace muster::tune {
namespace {

/// 64 bits of the whole name (FNV-1a), the same in every build.
uint64_t fingerprint_of(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

}  // namespace

std::string file_part(std::string_view study) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  constexpr size_t kLongest = 150;
  std::string name;
  for (const char c : study) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || c == '-' || c == '_' || (c == '.' && !name.empty())) {
      name += c;
    } else {
      name += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  if (name.empty()) return "%";
  if (name.size() <= kLongest) return name;
  return concat(name.substr(0, kLongest), '-', fingerprint_of(study));
}

std::filesystem::path file_of_study(const std::filesystem::path& storage,
                                    std::string_view study,
                                    std::string_view kind) {
  std::error_code ignored;
  // A name alone, of a file that is not there yet, would stay relative.
  const std::filesystem::path real =
      std::filesystem::weakly_canonical(std::filesystem::absolute(storage), ignored);
  return concat(real.empty() ? storage.string() : real.string(), '.', file_part(study), '.', kind);
}

}  // namespace muster::tune
