// The head of a safetensors file: 8 bytes of length, little-endian, then a JSON object that says of
// each tensor its dtype, shape and place in the data behind it. Torch-free, so that it is fuzzed
// under sanitizers. Sources: the format's description,
// https://github.com/huggingface/safetensors#format, and the rules of the reference implementation
// (the Rust crate `safetensors`, 0.6).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::formats {

/// An element type of the format. F4 and F6 are packed, so its size is in bits.
struct SafetensorsDtype {
  std::string_view name;  ///< "F32"
  uint32_t bits = 0;
};

/// All of them, in the reference's order: by alignment, least first. The writer lays tensors out in
/// the opposite order.
std::span<const SafetensorsDtype> safetensors_dtypes();

/// The entry of that name, or null.
const SafetensorsDtype* find_safetensors_dtype(std::string_view name);

struct SafetensorsTensor {
  std::string name;
  const SafetensorsDtype* dtype = nullptr;  ///< of safetensors_dtypes()
  std::vector<int64_t> shape;               ///< none negative
  uint64_t begin = 0;                       ///< within the data, bytes
  uint64_t end = 0;

  bool operator==(const SafetensorsTensor&) const = default;
};

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;  ///< in the order in which the header names them
  std::map<std::string, std::string> metadata;
  uint64_t data_begin = 0;  ///< where the data begins in the file

  bool operator==(const SafetensorsHeader&) const = default;
};

/// Reads the head of `file` (all of its bytes; data is not looked at). Strict: the header is at
/// most 100 MB and within the file, begins with `{` and is JSON; names are given once; each tensor
/// has dtype, shape and data_offsets and nothing else; offsets agree with dtype and shape, and
/// together they cover the data from its first to its last byte without gap or overlap. No size in
/// the bytes is believed before it was checked; memory taken is a small multiple of the header.
/// Throws a usage error that names `where`. Pure; any thread.
SafetensorsHeader parse_safetensors_header(std::string_view file, const std::string& where);

/// Gives each tensor its place, largest alignment first and then by name as the reference does, and
/// returns the head of the file: length and JSON, padded with blanks so that the data begins at a
/// multiple of 8. The JSON names the tensors in the order of `header.tensors`, which readers of
/// ours keep. Sets begin, end and data_begin. Throws a usage error for a name or text that is given
/// twice or not UTF-8, the name __metadata__, a size that does not fit 63 bits or, with packed
/// dtypes, is not whole bytes.
std::string lay_out_safetensors(SafetensorsHeader& header);

}  // namespace muster::formats
