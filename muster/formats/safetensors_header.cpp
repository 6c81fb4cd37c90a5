#include "muster/formats/safetensors_header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <optional>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::formats {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors is little-endian and is read as it is");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference's limit
constexpr size_t kMaxDimensions = 64;              // ATen's kernels take no more
constexpr std::string_view kMetadata = "__metadata__";

constexpr std::array<SafetensorsDtype, 22> kDtypes = {
    {{"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
     {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
     {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
     {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
     {"I64", 64},        {"U64", 64}}};

/// Bytes of a tensor, or nothing if they do not fit into 63 bits or are not whole. Sizes of 0 count
/// as 1 in the check of overflow: strides are products of the sizes and must fit, too.
std::optional<uint64_t> bytes_of(const SafetensorsTensor& tensor) {
  int64_t bits = tensor.dtype->bits;
  bool empty = false;
  for (const int64_t size : tensor.shape) {
    empty |= size == 0;
    if (__builtin_mul_overflow(bits, std::max<int64_t>(size, 1), &bits)) return std::nullopt;
  }
  if (empty) return 0;
  if (bits % 8 != 0) return std::nullopt;
  return static_cast<uint64_t>(bits) / 8;
}

[[noreturn]] void refuse_header(const std::string& where,
                                const std::string& rule,
                                const std::string& value = "") {
  throw usage_error({.refused = where + " is not a valid safetensors file",
                     .rule = rule,
                     .value = value.size() > 80 ? value.substr(0, 80) + "…" : value,
                     .hint = "the file is damaged or of another format"});
}

/// Takes the header's JSON piece by piece (nlohmann's SAX interface), so that no tree of it is ever
/// in memory and what does not belong there ends the parsing at once.
class HeaderReader {
 public:
  HeaderReader(const std::string& where, SafetensorsHeader& into) : where_(where), into_(into) {}

  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  bool start_object(size_t) {
    if (place_ == Place::kNothing) return go(Place::kTop);
    if (place_ == Place::kEntry) return go(is_metadata_ ? Place::kMetadata : Place::kTensor);
    unexpected();
  }

  bool key(string_t& name) {
    if (place_ == Place::kTop) return start_entry(name);
    key_ = name;
    if (place_ == Place::kMetadata) return true;
    const int field = name == "dtype" ? kDtype : name == "shape" ? kShape : kOffsets;
    if (field == kOffsets && name != "data_offsets")
      refuse_header(
          where_, "each tensor has dtype, shape and data_offsets", tensor().name + ": " + name);
    if (seen_ & field) refuse_header(where_, "a tensor's fields are given once", tensor().name);
    seen_ |= field;
    field_ = field;
    return true;
  }

  bool string(string_t& text) {
    if (place_ == Place::kMetadata) {
      if (!into_.metadata.emplace(key_, text).second)
        refuse_header(where_, "each text of __metadata__ is given once", key_);
      return true;
    }
    if (place_ != Place::kTensor || field_ != kDtype) unexpected();
    tensor().dtype = find_safetensors_dtype(text);
    if (tensor().dtype == nullptr)
      refuse_header(where_, "dtype is one that we know", concat(tensor().name, ": ", text));
    return true;
  }

  bool start_array(size_t) {
    if (place_ != Place::kTensor || field_ == kDtype) unexpected();
    return go(field_ == kShape ? Place::kShape : Place::kOffsets);
  }

  bool number_unsigned(uint64_t value) {
    if (place_ == Place::kShape) {
      if (value > INT64_MAX || tensor().shape.size() == kMaxDimensions)
        refuse_header(where_, "a shape is at most 64 sizes of 63 bits", tensor().name);
      tensor().shape.push_back(static_cast<int64_t>(value));
    } else if (place_ == Place::kOffsets) {
      if (offsets_ == 2) refuse_header(where_, "data_offsets are two numbers", tensor().name);
      (offsets_++ == 0 ? tensor().begin : tensor().end) = value;
    } else {
      unexpected();
    }
    return true;
  }

  bool end_array() { return go(Place::kTensor); }

  bool end_object() {
    if (place_ == Place::kTop) return go(Place::kEnd);
    if (place_ == Place::kTensor) finish_tensor();
    return go(Place::kTop);
  }

  bool null() {
    if (place_ != Place::kEntry || !is_metadata_) unexpected();  // the reference takes null there
    return go(Place::kTop);
  }
  bool boolean(bool) { unexpected(); }
  bool number_integer(int64_t) { unexpected(); }
  bool number_float(double, const string_t&) { unexpected(); }
  bool binary(binary_t&) { unexpected(); }
  bool parse_error(size_t position, const std::string&, const Json::exception&) {
    refuse_header(where_, "the header is JSON", concat("fault at its byte ", position));
  }

 private:
  enum class Place { kNothing, kTop, kEntry, kMetadata, kTensor, kShape, kOffsets, kEnd };
  enum Field { kDtype = 1, kShape = 2, kOffsets = 4, kAll = 7 };

  bool go(Place place) {
    place_ = place;
    return true;
  }

  bool start_entry(const std::string& name) {
    is_metadata_ = name == kMetadata;
    if (is_metadata_ && std::exchange(had_metadata_, true))
      refuse_header(where_, "each name is given once", name);
    if (!is_metadata_) into_.tensors.push_back({.name = name});
    seen_ = offsets_ = 0;
    return go(Place::kEntry);
  }

  void finish_tensor() {
    if (seen_ != kAll)
      refuse_header(where_, "each tensor has dtype, shape and data_offsets", tensor().name);
    if (offsets_ != 2) refuse_header(where_, "data_offsets are two numbers", tensor().name);
  }

  [[noreturn]] void unexpected() const {
    switch (place_) {
      case Place::kNothing:
        refuse_header(where_, "the header is a JSON object");
      case Place::kMetadata:
        refuse_header(where_, "__metadata__ is an object of texts", key_);
      case Place::kShape:
      case Place::kOffsets:
        refuse_header(
            where_, "shape and data_offsets are lists of whole numbers from 0", tensor().name);
      case Place::kTensor:
        refuse_header(where_, concat(key_, " has the wrong type"), tensor().name);
      default:
        if (is_metadata_) refuse_header(where_, "__metadata__ is an object of texts");
        refuse_header(where_, "each tensor has dtype, shape and data_offsets", tensor().name);
    }
  }

  SafetensorsTensor& tensor() const { return into_.tensors.back(); }

  const std::string& where_;
  SafetensorsHeader& into_;
  Place place_ = Place::kNothing;
  bool is_metadata_ = false;
  bool had_metadata_ = false;
  std::string key_;  // the last one within an entry
  int field_ = 0;    // the field whose value comes next
  int seen_ = 0;     // Field bits
  int offsets_ = 0;  // numbers of data_offsets so far
};

/// Indices of the tensors, sorted by `less(tensor, tensor)`; equal ones keep their order.
template <class Less>
std::vector<size_t> sorted(const std::vector<SafetensorsTensor>& tensors, Less less) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(
      order.begin(), order.end(), [&](size_t a, size_t b) { return less(tensors[a], tensors[b]); });
  return order;
}

/// The first name that is there twice.
const std::string* name_twice(const std::vector<SafetensorsTensor>& tensors) {
  const auto order = sorted(tensors, [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(order.begin(), order.end(), [&](size_t a, size_t b) {
    return tensors[a].name == tensors[b].name;
  });
  return twice == order.end() ? nullptr : &tensors[*twice].name;
}

void check_sizes(const SafetensorsHeader& header, uint64_t data_bytes, const std::string& where) {
  for (const SafetensorsTensor& tensor : header.tensors) {
    if (tensor.begin > tensor.end || tensor.end > data_bytes)
      refuse_header(where, "data_offsets lie inside the file", tensor.name);
    const auto bytes = bytes_of(tensor);
    if (!bytes) refuse_header(where, "a tensor is whole bytes and fits into 63 bits", tensor.name);
    if (tensor.end - tensor.begin != *bytes)
      refuse_header(where, "data_offsets agree with dtype and shape", tensor.name);
  }
}

void check_cover(const SafetensorsHeader& header, uint64_t data_bytes, const std::string& where) {
  const auto by_place = [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  };
  uint64_t end = 0;
  for (const size_t i : sorted(header.tensors, by_place)) {
    const SafetensorsTensor& tensor = header.tensors[i];
    if (tensor.begin != end)
      refuse_header(where,
                    "tensors lie side by side without gap or overlap",
                    concat(tensor.name, " at offset ", tensor.begin, " after ", end));
    end = tensor.end;
  }
  if (end != data_bytes)
    refuse_header(where, "the tensors fill the file", concat(data_bytes - end, " bytes too many"));
}

/// As JSON, with quotes.
std::string quoted(const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const Json::type_error&) {
    throw usage_error({.refused = "a name or text for a safetensors file",
                       .rule = "it is UTF-8",
                       .value = json_text(Json(text))});
  }
}

void append_json(std::string& out, const SafetensorsTensor& tensor) {
  out += quoted(tensor.name) + ":{\"dtype\":\"";
  out += tensor.dtype->name;
  out += "\",\"shape\":[";
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    out += (i ? "," : "") + std::to_string(tensor.shape[i]);
  out += "],\"data_offsets\":[" + std::to_string(tensor.begin) + ',' + std::to_string(tensor.end) +
         "]}";
}

std::string header_json(const SafetensorsHeader& header) {
  std::string out = "{";
  if (!header.metadata.empty()) {
    out += quoted(std::string(kMetadata)) + ":{";
    for (const auto& [key, text] : header.metadata)
      out += (out.back() == '{' ? "" : ",") + quoted(key) + ':' + quoted(text);
    out += '}';
  }
  for (const SafetensorsTensor& tensor : header.tensors) {
    if (out.size() > 1) out += ',';
    append_json(out, tensor);
  }
  out += '}';
  out.append((kLengthBytes - out.size() % kLengthBytes) % kLengthBytes, ' ');
  return out;
}

/// Gives each tensor its place in the data.
void place(std::vector<SafetensorsTensor>& tensors) {
  // Pointers into one table: the larger one is the dtype of the larger alignment.
  const auto by_alignment = [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
    return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;
  };
  int64_t end = 0;
  for (const size_t i : sorted(tensors, by_alignment)) {
    const auto bytes = bytes_of(tensors[i]);
    tensors[i].begin = static_cast<uint64_t>(end);
    if (!bytes || __builtin_add_overflow(end, static_cast<int64_t>(*bytes), &end)) {
      throw usage_error({.refused = "tensor " + tensors[i].name,
                         .rule = "a safetensors file is whole bytes and fits into 63 bits"});
    }
    tensors[i].end = static_cast<uint64_t>(end);
  }
}

}  // namespace

std::span<const SafetensorsDtype> safetensors_dtypes() { return kDtypes; }

const SafetensorsDtype* find_safetensors_dtype(std::string_view name) {
  const auto found = std::find_if(
      kDtypes.begin(), kDtypes.end(), [&](const auto& known) { return known.name == name; });
  return found == kDtypes.end() ? nullptr : &*found;
}

SafetensorsHeader parse_safetensors_header(std::string_view file, const std::string& where) {
  if (file.size() < kLengthBytes)
    refuse_header(where, "it has at least 8 bytes", concat(file.size(), " bytes"));
  uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kMaxHeaderBytes || length > file.size() - kLengthBytes)
    refuse_header(where,
                  "the header fits into the file and into 100 MB",
                  concat("header of ", length, " bytes in ", file.size()));
  const std::string_view text = file.substr(kLengthBytes, length);
  if (text.empty() || text[0] != '{') refuse_header(where, "the header is a JSON object");
  // nlohmann takes a zero byte for the end and would pass over what follows.
  if (text.find('\0') != std::string_view::npos)
    refuse_header(where, "the header is JSON", "a zero byte in it");
  SafetensorsHeader header;
  header.data_begin = kLengthBytes + length;
  HeaderReader reader(where, header);
  Json::sax_parse(text, &reader);
  if (const std::string* name = name_twice(header.tensors))
    refuse_header(where, "each name is given once", *name);
  const uint64_t data_bytes = file.size() - header.data_begin;
  check_sizes(header, data_bytes, where);
  check_cover(header, data_bytes, where);
  return header;
}

std::string lay_out_safetensors(SafetensorsHeader& header) {
  for (const SafetensorsTensor& tensor : header.tensors) {
    if (tensor.name == kMetadata)
      throw usage_error({.refused = "tensor __metadata__",
                         .rule = "in a safetensors file this name means the texts"});
  }
  if (const std::string* name = name_twice(header.tensors))
    throw usage_error({.refused = "tensor " + *name, .rule = "each name is given once"});
  place(header.tensors);
  const std::string json = header_json(header);
  if (json.size() > kMaxHeaderBytes)
    throw usage_error({.refused = "names and texts for a safetensors file",
                       .rule = "its header is at most 100 MB",
                       .value = human_bytes(json.size())});
  header.data_begin = kLengthBytes + json.size();
  const uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), kLengthBytes) + json;
}

}  // namespace muster::formats
