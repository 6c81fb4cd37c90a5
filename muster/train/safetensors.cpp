#include "muster/train/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>

#include <ATen/ops/empty.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::train {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors data is little-endian and is copied as it is");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr size_t kMaxDimensions = 64;

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
                                DtypeName{at::kByte, "U8"},
                                DtypeName{at::kBool, "BOOL"}};

std::string_view name_of(at::ScalarType type, const std::string& tensor) {
  for (const DtypeName& known : kDtypes) {
    if (known.type == type) return known.name;
  }
  throw usage_error({.refused = "tensor " + tensor,
                     .rule = "its dtype has no name in safetensors",
                     .value = c10::toString(type)});
}

/// Refuses with one sentence about `where`. Every check below goes through it.
class Reader {
 public:
  Reader(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  TensorFile read() {
    const Json header = read_header();
    TensorFile file;
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") {
        read_metadata(entry, file);
      } else {
        file.tensors.emplace_back(name, read_tensor(name, entry));
      }
    }
    check_cover();
    return file;
  }

 private:
  [[noreturn]] void refuse(const std::string& rule, const std::string& value = "") const {
    throw usage_error({.refused = where_ + " is not a valid safetensors file",
                       .rule = rule,
                       .value = value,
                       .hint = "the file is damaged or of another format"});
  }

  Json read_header() {
    if (bytes_.size() < kLengthBytes)
      refuse("it has at least 8 bytes", concat(bytes_.size(), " bytes"));
    uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), kLengthBytes);
    if (length > kMaxHeaderBytes || length > bytes_.size() - kLengthBytes)
      refuse("the header fits into the file", concat("header of ", length, " bytes"));
    const std::string_view text = bytes_.substr(kLengthBytes, length);
    if (text.empty() || text[0] != '{') refuse("the header is a JSON object");
    data_ = bytes_.substr(kLengthBytes + length);
    // nlohmann keeps the last of two equal keys without a word, so they are counted while parsing.
    std::vector<std::set<std::string>> keys;
    bool twice = false;
    const auto watch = [&](int, Json::parse_event_t event, Json& value) {
      if (event == Json::parse_event_t::object_start) keys.emplace_back();
      if (event == Json::parse_event_t::object_end) keys.pop_back();
      if (event == Json::parse_event_t::key)
        twice |= !keys.back().insert(value.get<std::string>()).second;
      return true;
    };
    try {
      Json header = Json::parse(text, watch);
      if (twice) refuse("each name is given once");
      return header;
    } catch (const Json::exception& error) {
      refuse("the header is JSON", error.what());
    }
  }

  void read_metadata(const Json& entry, TensorFile& file) {
    if (!entry.is_object()) refuse("__metadata__ is an object of texts");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) refuse("__metadata__ is an object of texts", key);
      file.metadata[key] = value.get<std::string>();
    }
  }

  at::Tensor read_tensor(const std::string& name, const Json& entry) {
    if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
        !entry.contains("shape") || !entry.contains("data_offsets")) {
      refuse("each tensor has dtype, shape and data_offsets", name);
    }
    const at::ScalarType type = read_dtype(name, entry["dtype"]);
    const std::vector<int64_t> shape = read_numbers(name, entry["shape"], kMaxDimensions);
    const std::vector<int64_t> offsets = read_numbers(name, entry["data_offsets"], 2);
    uint64_t bytes = c10::elementSize(type);
    for (const int64_t size : shape) {
      if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes))
        refuse("a tensor's size fits into 64 bits", name);
    }
    if (offsets.size() != 2 || offsets[0] > offsets[1] ||
        static_cast<uint64_t>(offsets[1]) > data_.size()) {
      refuse("data_offsets lie inside the file", name);
    }
    if (static_cast<uint64_t>(offsets[1] - offsets[0]) != bytes)
      refuse("data_offsets agree with dtype and shape", name);
    spans_.emplace_back(offsets[0], offsets[1]);
    at::Tensor tensor = at::empty(shape, at::TensorOptions(type));
    if (bytes > 0) std::memcpy(tensor.mutable_data_ptr(), data_.data() + offsets[0], bytes);
    return tensor;
  }

  at::ScalarType read_dtype(const std::string& tensor, const Json& value) const {
    if (value.is_string()) {
      for (const DtypeName& known : kDtypes) {
        if (known.name == value.get<std::string>()) return known.type;
      }
    }
    refuse("dtype is one that we know", concat(tensor, ": ", value.dump().substr(0, 40)));
  }

  std::vector<int64_t> read_numbers(const std::string& tensor,
                                    const Json& value,
                                    size_t most) const {
    std::vector<int64_t> numbers;
    if (!value.is_array() || value.size() > most)
      refuse("shape and data_offsets are short lists of whole numbers", tensor);
    for (const Json& item : value) {
      if (!item.is_number_unsigned() || item.get<uint64_t>() > INT64_MAX)
        refuse("shape and data_offsets are whole numbers from 0", tensor);
      numbers.push_back(item.get<int64_t>());
    }
    return numbers;
  }

  void check_cover() {
    std::sort(spans_.begin(), spans_.end());
    int64_t end = 0;
    for (const auto& [from, to] : spans_) {
      if (from != end)
        refuse("tensors lie side by side without gap or overlap",
               concat("offset ", from, " after ", end));
      end = to;
    }
    if (static_cast<uint64_t>(end) != data_.size())
      refuse("the tensors fill the file", concat(data_.size() - end, " bytes too many"));
  }

  std::string_view bytes_;
  std::string_view data_;
  const std::string& where_;
  std::vector<std::pair<int64_t, int64_t>> spans_;
};

}  // namespace

const at::Tensor& TensorFile::at(const std::string& name) const {
  std::vector<std::string> known;
  for (const auto& [key, tensor] : tensors) {
    if (key == name) return tensor;
    known.push_back(key);
  }
  throw usage_error({.refused = "no tensor named " + name, .hint = suggestion(name, known)});
}

std::string to_safetensors(const TensorFile& file) {
  Json header = Json::object();
  if (!file.metadata.empty()) header["__metadata__"] = file.metadata;
  std::vector<at::Tensor> contiguous;
  uint64_t offset = 0;
  for (const auto& [name, tensor] : file.tensors) {
    if (header.contains(name))
      throw usage_error({.refused = "tensor " + name, .rule = "each name is given once"});
    contiguous.push_back(tensor.detach().to(at::kCPU).contiguous());
    const uint64_t end = offset + contiguous.back().nbytes();
    header[name] = {{"dtype", name_of(tensor.scalar_type(), name)},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes,
              ' ');  // data starts at a multiple of 8
  const uint64_t length = text.size();
  std::string bytes;
  bytes.reserve(kLengthBytes + length + offset);
  bytes.append(reinterpret_cast<const char*>(&length), kLengthBytes);
  bytes += text;
  for (const at::Tensor& tensor : contiguous) {
    if (tensor.nbytes() > 0)
      bytes.append(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
  }
  return bytes;
}

TensorFile parse_safetensors(std::string_view bytes, const std::string& where) {
  return Reader(bytes, where).read();
}

TensorFile read_safetensors(const std::filesystem::path& path) {
  return parse_safetensors(read_file(path), path.string());
}

}  // namespace muster::train
