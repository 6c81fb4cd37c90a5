// Tensors in files, in the safetensors format: muster/formats/safetensors_header.h says what is
// where; this is its LibTorch side. Readable and written by PyPI's `safetensors` as well.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/tensor/named_tensors.h"

namespace muster {
class MappedFile;
}

namespace muster::tensor {

/// A file's worth: tensors in the order in which the header names them, and free text about them.
struct TensorFile {
  NamedTensorList tensors;
  std::map<std::string, std::string> metadata;

  /// Throws a usage error with the nearest name.
  const at::Tensor& at(const std::string& name) const;
};

struct WriteSafetensorsOptions {
  bool sync = true;  ///< file and folder are on the disk when the writer returns
  /// Sees all bytes of the file in order, piece by piece: for a checksum, say.
  std::function<void(std::string_view)> on_bytes;
};

/// Writes the file atomically. Tensors may be on any device, of any strides; those that are not
/// contiguous on the CPU are copied one at a time, so that memory beyond theirs is that of the
/// largest. Dtypes: all of LibTorch's that the format has (bool; 8 to 64 bit integers with and
/// without sign; float16, bfloat16, float32, float64; the float8 kinds; float4_e2m1fn_x2;
/// complex64). Throws a usage error for another dtype or a name given twice, an environment error
/// if the file cannot be written; then an old file stays as it was.
void write_safetensors(const std::filesystem::path& path,
                       const TensorFile& file,
                       const WriteSafetensorsOptions& options = {});

/// The same bytes in memory.
std::string to_safetensors(const TensorFile& file);

enum class TensorMemory {
  kMapped,  ///< views of the file, mapped: nothing is read before it is used
  kOwned,   ///< copies, independent of the file
};

/// Reads a file. Strict, see `parse_safetensors_header`. With kMapped a tensor keeps the mapping
/// alive; it may be written to (the page becomes a private copy; the file does not change); a
/// tensor that the file does not align to its elements is copied. The file may be removed or
/// replaced by another while tensors live, but not be written in place: take kOwned for such a
/// file. Throws a usage error that names the file; also for a dtype that LibTorch has not (F6).
TensorFile read_safetensors(const std::filesystem::path& path,
                            TensorMemory memory = TensorMemory::kMapped);

/// The same for a file that is mapped already (to have its checksum taken first, say); `where` is
/// named in errors.
TensorFile read_safetensors(const std::shared_ptr<MappedFile>& file,
                            const std::string& where,
                            TensorMemory memory = TensorMemory::kMapped);

/// The same for bytes in memory. Tensors own their memory.
TensorFile parse_safetensors(std::string_view bytes, const std::string& where);

}  // namespace muster::tensor
