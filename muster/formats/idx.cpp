#include "muster/formats/idx.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <libdeflate.h>
#include <zlib.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"

namespace muster::formats {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr size_t kMaxDims = 8;
constexpr size_t kMaxIdxHeaderBytes = 4 + 4 * kMaxDims;
constexpr int64_t kDeflateMaxRatio = 1032;  // 258 bytes from 2 bits

Error damaged(std::string_view name, std::string rule, std::string value = "") {
  return environment_error({.refused = concat("damaged IDX file ", name),
                            .rule = std::move(rule),
                            .value = std::move(value),
                            .hint = "get the file again from where it came"});
}

struct Header {
  IdxType type = IdxType::kUint8;
  std::vector<int64_t> dims;
  int64_t array_bytes = 0;

  size_t size() const { return 4 + 4 * dims.size(); }
  int64_t file_bytes() const { return static_cast<int64_t>(size()) + array_bytes; }
};

IdxType parse_type(uint8_t code, std::string_view name) {
  switch (static_cast<IdxType>(code)) {
    case IdxType::kUint8:
    case IdxType::kInt8:
    case IdxType::kInt16:
    case IdxType::kInt32:
    case IdxType::kFloat32:
    case IdxType::kFloat64:
      return static_cast<IdxType>(code);
  }
  throw damaged(name, "the third byte is a type: 8, 9, 11, 12, 13 or 14", concat(int{code}));
}

/// `start` is the beginning of the file, unpacked, of kMaxIdxHeaderBytes or as much as there is.
Header parse_header(Bytes start, std::string_view name, const IdxLimits& limits) {
  if (start.size() < 4) {
    throw damaged(name, "an IDX file has a header", concat(start.size(), " bytes"));
  }
  if (start[0] != 0 || start[1] != 0) {
    throw damaged(name,
                  "an IDX file begins with two zero bytes",
                  concat(int{start[0]}, " and ", int{start[1]}));
  }
  Header header{.type = parse_type(start[2], name)};
  const size_t dims = start[3];
  if (dims < 1 || dims > kMaxDims) {
    throw damaged(name, concat("an array has 1 to ", kMaxDims, " dimensions"), concat(dims));
  }
  if (start.size() < 4 + 4 * dims) {
    throw damaged(name,
                  concat("a header of ", dims, " dimensions takes ", 4 + 4 * dims, " bytes"),
                  concat(start.size(), " bytes"));
  }
  header.array_bytes = element_bytes(header.type);
  for (size_t i = 0; i < dims; ++i) {
    const uint8_t* at = &start[4 + 4 * i];
    const int64_t dim =
        int64_t{at[0]} << 24 | int64_t{at[1]} << 16 | int64_t{at[2]} << 8 | int64_t{at[3]};
    if (dim != 0 && header.array_bytes > limits.max_bytes / dim) {
      throw damaged(
          name,
          concat("an array takes at most ", human_bytes(static_cast<uint64_t>(limits.max_bytes))),
          concat("a header that claims more in its first ", i + 1, " dimensions"));
    }
    header.array_bytes *= dim;
    header.dims.push_back(dim);
  }
  return header;
}

/// An array with room for the whole file, so that the header is unpacked to its place in front of
/// the elements.
IdxArray make_array(const Header& header) {
  const auto bytes = static_cast<size_t>(header.file_bytes());
  IdxArray array{.type = header.type,
                 .dims = header.dims,
                 .storage = std::make_unique_for_overwrite<uint8_t[]>(bytes)};
  array.bytes = Bytes(array.storage.get(), bytes).subspan(header.size());
  return array;
}

Error wrong_size(std::string_view name, const Header& header, std::string value) {
  return damaged(
      name, concat("its header asks for ", header.file_bytes(), " bytes"), std::move(value));
}

IdxArray parse_plain(Bytes file, std::string_view name, const IdxLimits& limits) {
  const Header header = parse_header(file, name, limits);
  const auto want = static_cast<size_t>(header.file_bytes());
  if (file.size() < want) throw wrong_size(name, header, concat("cut short after ", file.size()));
  if (file.size() > want) {
    throw wrong_size(name, header, concat(file.size(), ", with bytes behind the end"));
  }
  IdxArray array = make_array(header);
  std::memcpy(array.storage.get(), file.data(), want);
  return array;
}

bool is_gzip(Bytes file) { return file.size() >= 2 && file[0] == 0x1f && file[1] == 0x8b; }

/// The first bytes of what is packed. zlib, because libdeflate unpacks whole members only.
std::vector<uint8_t> unpack_start(Bytes file, std::string_view name) {
  std::vector<uint8_t> out(kMaxIdxHeaderBytes);
  z_stream stream{};
  constexpr int kGzipOnly = 16 + MAX_WBITS;
  if (inflateInit2(&stream, kGzipOnly) != Z_OK) {
    throw environment_error({.refused = "out of memory"});
  }
  stream.next_in = const_cast<uint8_t*>(file.data());  // only read; the interface predates const
  stream.avail_in = static_cast<uInt>(std::min<size_t>(file.size(), 1 << 20));
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = inflate(&stream, Z_SYNC_FLUSH);
  const std::string reason = stream.msg != nullptr ? stream.msg : "";
  out.erase(out.end() - stream.avail_out, out.end());
  inflateEnd(&stream);
  if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
    throw damaged(name, "its gzip stream must decode", reason);
  }
  return out;
}

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* it) const { libdeflate_free_decompressor(it); }
};

/// Unpacks every member of `file` into exactly `out.size()` bytes. libdeflate takes half of zlib's
/// time here.
void unpack_all(Bytes file, std::span<uint8_t> out, std::string_view name, const Header& header) {
  const std::unique_ptr<libdeflate_decompressor, FreeDecompressor> decompressor(
      libdeflate_alloc_decompressor());
  if (!decompressor) throw environment_error({.refused = "out of memory"});
  size_t filled = 0;
  while (!file.empty()) {
    if (!is_gzip(file)) {
      throw damaged(
          name, "nothing follows the gzip stream", concat(file.size(), " bytes behind its end"));
    }
    size_t used = 0;
    size_t got = 0;
    switch (libdeflate_gzip_decompress_ex(decompressor.get(),
                                          file.data(),
                                          file.size(),
                                          out.data() + filled,
                                          out.size() - filled,
                                          &used,
                                          &got)) {
      case LIBDEFLATE_SUCCESS:
        break;
      case LIBDEFLATE_INSUFFICIENT_SPACE:
        throw wrong_size(name, header, "a gzip stream that holds more");
      default:
        throw damaged(name,
                      "its gzip stream must decode and match its checksum",
                      "a stream that was cut short or altered");
    }
    filled += got;
    file = file.subspan(used);
  }
  if (filled < out.size()) throw wrong_size(name, header, concat("cut short after ", filled));
}

IdxArray parse_gzip(Bytes file, std::string_view name, const IdxLimits& limits) {
  const Header header = parse_header(unpack_start(file, name), name, limits);
  if (header.file_bytes() / kDeflateMaxRatio > static_cast<int64_t>(file.size())) {
    throw wrong_size(
        name, header, concat("a gzip file of ", file.size(), ", which cannot hold them"));
  }
  IdxArray array = make_array(header);
  unpack_all(file, {array.storage.get(), static_cast<size_t>(header.file_bytes())}, name, header);
  return array;
}

}  // namespace

int64_t element_bytes(IdxType type) {
  switch (type) {
    case IdxType::kUint8:
    case IdxType::kInt8:
      return 1;
    case IdxType::kInt16:
      return 2;
    case IdxType::kInt32:
    case IdxType::kFloat32:
      return 4;
    case IdxType::kFloat64:
      return 8;
  }
  throw internal_error({.refused = concat("IDX type ", static_cast<int>(type))});
}

IdxArray parse_idx(std::span<const uint8_t> file, std::string_view name, const IdxLimits& limits) {
  return is_gzip(file) ? parse_gzip(file, name, limits) : parse_plain(file, name, limits);
}

IdxArray read_idx(const std::filesystem::path& path, const IdxLimits& limits) {
  const std::string file = read_file(path);
  return parse_idx(
      {reinterpret_cast<const uint8_t*>(file.data()), file.size()}, path.string(), limits);
}

}  // namespace muster::formats
