#include "muster/tensor/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/mapped_file.h"
#include "muster/base/text.h"
#include "muster/formats/safetensors_header.h"
#include "muster/tensor/dtype_name.h"

namespace muster::tensor {
namespace {

struct DtypeName {
  at::ScalarType type;
  std::string_view name;
};
constexpr std::array kDtypes = {DtypeName{at::kDouble, "F64"},
                                DtypeName{at::kFloat, "F32"},
                                DtypeName{at::kHalf, "F16"},
                                DtypeName{at::kBFloat16, "BF16"},
                                DtypeName{at::kLong, "I64"},
                                DtypeName{at::kInt, "I32"},
                                DtypeName{at::kShort, "I16"},
                                DtypeName{at::kChar, "I8"},
                                DtypeName{at::kUInt64, "U64"},
                                DtypeName{at::kUInt32, "U32"},
                                DtypeName{at::kUInt16, "U16"},
                                DtypeName{at::kByte, "U8"},
                                DtypeName{at::kBool, "BOOL"},
                                DtypeName{at::kComplexFloat, "C64"},
                                DtypeName{at::kFloat8_e5m2, "F8_E5M2"},
                                DtypeName{at::kFloat8_e4m3fn, "F8_E4M3"},
                                DtypeName{at::kFloat8_e8m0fnu, "F8_E8M0"},
                                DtypeName{at::kFloat8_e5m2fnuz, "F8_E5M2FNUZ"},
                                DtypeName{at::kFloat8_e4m3fnuz, "F8_E4M3FNUZ"},
                                DtypeName{at::ScalarType::Float4_e2m1fn_x2, "F4"}};

/// Two F4 numbers are one element of LibTorch's: the last size of a shape is halved.
constexpr at::ScalarType kPacked = at::ScalarType::Float4_e2m1fn_x2;

const formats::SafetensorsDtype* dtype_of(const std::string& name, at::ScalarType type) {
  for (const DtypeName& known : kDtypes) {
    if (known.type == type) return formats::find_safetensors_dtype(known.name);
  }
  throw usage_error({.refused = "tensor " + name,
                     .rule = "its dtype has no name in safetensors",
                     .value = dtype_name(type)});
}

at::ScalarType type_of(const formats::SafetensorsTensor& tensor, const std::string& where) {
  for (const DtypeName& known : kDtypes) {
    if (known.name == tensor.dtype->name) return known.type;
  }
  throw usage_error({.refused = concat("tensor ", tensor.name, " of ", where),
                     .rule = "its dtype is one that LibTorch has",
                     .value = std::string(tensor.dtype->name)});
}

formats::SafetensorsTensor header_entry(const std::string& name, const at::Tensor& tensor) {
  formats::SafetensorsTensor out{.name = name, .dtype = dtype_of(name, tensor.scalar_type())};
  out.shape = tensor.sizes().vec();
  if (tensor.scalar_type() == kPacked) {
    if (out.shape.empty())
      throw usage_error(
          {.refused = "tensor " + name, .rule = "a packed tensor has at least one dimension"});
    out.shape.back() *= 2;
  }
  return out;
}

formats::SafetensorsHeader header_of(const TensorFile& file) {
  formats::SafetensorsHeader header{.metadata = file.metadata};
  for (const auto& [name, tensor] : file.tensors)
    header.tensors.push_back(header_entry(name, tensor));
  return header;
}

/// Hands the bytes of the file to `put`, piece by piece.
template <class Put>
void emit(const TensorFile& file, Put put) {
  formats::SafetensorsHeader header = header_of(file);
  put(formats::lay_out_safetensors(header));
  std::vector<size_t> order(header.tensors.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const formats::SafetensorsTensor &x = header.tensors[a], &y = header.tensors[b];
    return std::pair(x.begin, x.end) < std::pair(y.begin, y.end);
  });
  for (const size_t i : order) {
    // A lazy conjugate or negative bit would not be in the bytes.
    const at::Tensor tensor =
        file.tensors[i].second.detach().to(at::kCPU).contiguous().resolve_conj().resolve_neg();
    if (tensor.nbytes() > 0)
      put(std::string_view(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()));
  }
}

std::vector<int64_t> shape_of(const formats::SafetensorsTensor& tensor,
                              at::ScalarType type,
                              const std::string& where) {
  std::vector<int64_t> shape = tensor.shape;
  if (type != kPacked) return shape;
  if (shape.empty() || shape.back() % 2 != 0) {
    throw usage_error({.refused = concat("tensor ", tensor.name, " of ", where),
                       .rule = "LibTorch packs two F4 into one element, so its last size is even"});
  }
  shape.back() /= 2;
  return shape;
}

at::Tensor copy_of(const char* data, const std::vector<int64_t>& shape, at::ScalarType type) {
  at::Tensor tensor = at::empty(shape, at::TensorOptions(type));
  if (tensor.nbytes() > 0) std::memcpy(tensor.mutable_data_ptr(), data, tensor.nbytes());
  return tensor;
}

/// `data` belongs to `owner`; without one, or where it is not aligned, the tensor is a copy.
at::Tensor view_or_copy(char* data,
                        const std::vector<int64_t>& shape,
                        at::ScalarType type,
                        const std::shared_ptr<MappedFile>& owner) {
  // complex64 is two floats, but kernels read it as one element of 8 bytes.
  const bool aligned = reinterpret_cast<uintptr_t>(data) % c10::elementSize(type) == 0;
  if (!owner || !aligned) return copy_of(data, shape, type);
  return at::from_blob(
      data, shape, [owner](void*) {}, at::TensorOptions(type));
}

TensorFile tensors_of(char* bytes,
                      formats::SafetensorsHeader header,
                      const std::string& where,
                      const std::shared_ptr<MappedFile>& owner) {
  TensorFile file{.tensors = {}, .metadata = std::move(header.metadata)};
  file.tensors.reserve(header.tensors.size());
  for (formats::SafetensorsTensor& tensor : header.tensors) {
    const at::ScalarType type = type_of(tensor, where);
    const std::vector<int64_t> shape = shape_of(tensor, type, where);
    // Nothing to map in an empty tensor, and its place may be the end of the mapping.
    const bool empty = tensor.begin == tensor.end;
    file.tensors.emplace_back(
        std::move(tensor.name),
        view_or_copy(
            bytes + header.data_begin + tensor.begin, shape, type, empty ? nullptr : owner));
  }
  return file;
}

}  // namespace

const at::Tensor& TensorFile::at(const std::string& name) const {
  std::vector<std::string> known;
  for (const auto& [key, tensor] : tensors) {
    if (key == name) return tensor;
    known.push_back(key);
  }
  throw usage_error({.refused = "no tensor named " + name, .hint = suggestion(name, known)});
}

void write_safetensors(const std::filesystem::path& path,
                       const TensorFile& file,
                       const WriteSafetensorsOptions& options) {
  AtomicFile out(path);
  emit(file, [&](std::string_view bytes) {
    out.write(bytes);
    if (options.on_bytes) options.on_bytes(bytes);
  });
  out.commit(options.sync);
}

std::string to_safetensors(const TensorFile& file) {
  std::string bytes;
  size_t total = 0;
  for (const auto& [name, tensor] : file.tensors) total += tensor.nbytes() + name.size() + 128;
  bytes.reserve(total);
  emit(file, [&](std::string_view piece) { bytes += piece; });
  return bytes;
}

TensorFile read_safetensors(const std::shared_ptr<MappedFile>& file,
                            const std::string& where,
                            TensorMemory memory) {
  return tensors_of(file->data(),
                    formats::parse_safetensors_header(file->bytes(), where),
                    where,
                    memory == TensorMemory::kMapped ? file : nullptr);
}

TensorFile read_safetensors(const std::filesystem::path& path, TensorMemory memory) {
  return read_safetensors(MappedFile::open(path), path.string(), memory);
}

TensorFile parse_safetensors(std::string_view bytes, const std::string& where) {
  // Never written to: every tensor is a copy.
  return tensors_of(const_cast<char*>(bytes.data()),
                    formats::parse_safetensors_header(bytes, where),
                    where,
                    nullptr);
}

}  // namespace muster::tensor
