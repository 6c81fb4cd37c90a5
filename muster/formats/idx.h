// The IDX format of the MNIST family of datasets: a header, then one dense array. Torch-free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace muster::formats {

/// The third byte of the file.
enum class IdxType : uint8_t {
  kUint8 = 0x08,
  kInt8 = 0x09,
  kInt16 = 0x0B,
  kInt32 = 0x0C,
  kFloat32 = 0x0D,
  kFloat64 = 0x0E,
};

int64_t element_bytes(IdxType type);

/// An array as it stands in the file: row-major, elements of more than one byte most significant
/// byte first.
struct IdxArray {
  IdxType type = IdxType::kUint8;
  std::vector<int64_t> dims;           ///< {60000, 28, 28}
  std::unique_ptr<uint8_t[]> storage;  ///< the whole file, header included
  std::span<const uint8_t> bytes;      ///< the elements, within `storage`
};

struct IdxLimits {
  int64_t max_bytes = int64_t{4} << 30;  ///< of the array; a header that claims more is refused
};

/// Reads a file, compressed by gzip or not (told by its first bytes, not by its name).
///
/// Strict: the magic number, type and dimensions are checked, the size must be what the header says
/// to the byte, and the checksums of gzip must hold. Memory is bounded before it is taken: by
/// `limits`, by the size of a plain file, and by deflate's greatest ratio (1032 to 1) for a
/// compressed one, whatever the header claims.
///
/// Throws a usage error if there is no such file, else an environment error; all name the path.
///
/// Source: the format's description beside the MNIST files (LeCun, Cortes, Burges); RFC 1952.
IdxArray read_idx(const std::filesystem::path& path, const IdxLimits& limits = {});

/// The same for a file that is in memory; `name` stands in errors where the path would.
IdxArray parse_idx(std::span<const uint8_t> file,
                   std::string_view name,
                   const IdxLimits& limits = {});

}  // namespace muster::formats
