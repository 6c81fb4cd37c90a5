// Tensors in files, in the safetensors format: 8 bytes of header length, a JSON header, raw
// little-endian data. Source: the format's description,
// https://github.com/huggingface/safetensors#format.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace muster::train {

using NamedTensorList = std::vector<std::pair<std::string, at::Tensor>>;

/// A file's worth: tensors in the order of their data, and free text about them.
struct TensorFile {
  NamedTensorList tensors;
  std::map<std::string, std::string> metadata;

  /// Throws a usage error with the nearest name.
  const at::Tensor& at(const std::string& name) const;
};

/// The bytes of a file. Tensors are copied to the CPU and made contiguous. Throws a usage error for
/// a dtype that the format lacks or a name given twice.
std::string to_safetensors(const TensorFile& file);

/// Strict: header and offsets must describe the data exactly, without gap, overlap or unknown
/// field; no size in the bytes is trusted before it was checked against their length. Tensors own
/// their memory. Throws a usage error that names `where`.
TensorFile parse_safetensors(std::string_view bytes, const std::string& where);

TensorFile read_safetensors(const std::filesystem::path& path);

}  // namespace muster::train
