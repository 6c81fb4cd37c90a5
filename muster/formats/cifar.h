// The binary files of CIFAR-10 and CIFAR-100: records of labels and a picture, one behind the other.
// Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace muster::formats {

inline constexpr int64_t kCifarSide = 32;
inline constexpr int64_t kCifarImageBytes = 3 * kCifarSide * kCifarSide;

enum class CifarKind {
  kTen,     ///< a byte of label, 0 … 9
  kHundred  ///< a byte of coarse label, 0 … 19, and one of fine label, 0 … 99
};

struct CifarRecords {
  std::vector<uint8_t> labels;         ///< [records]; of CIFAR-100 the fine ones
  std::vector<uint8_t> coarse_labels;  ///< [records], of CIFAR-100 alone
  std::vector<uint8_t> pixels;  ///< [records, 3, 32, 32]: red, green, blue; rows from the top
};

/// Throws an environment error that names the file, and the record with its place in the file, unless
/// the file is whole records and each label one of its kind: so a file of the other kind is refused.
///
/// Source: the formats' description at the data sets' home (Krizhevsky 2009).
CifarRecords parse_cifar(std::span<const uint8_t> file, std::string_view name, CifarKind kind);

/// The same of a file on disk. Throws a usage error if there is no such file.
CifarRecords read_cifar(const std::filesystem::path& path, CifarKind kind);

}  // namespace muster::formats
