// IDX files made by hand, for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <vector>

#include <zlib.h>

namespace muster::formats {

using ByteVector = std::vector<uint8_t>;

/// Magic number and dimensions.
inline ByteVector idx_header(uint8_t type, std::initializer_list<uint32_t> dims) {
  ByteVector out{0, 0, type, static_cast<uint8_t>(dims.size())};
  for (const uint32_t dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<uint8_t>(dim >> shift));
  }
  return out;
}

/// A file of bytes 0, 1, 2, … modulo `modulo`.
inline ByteVector idx_file(std::initializer_list<uint32_t> dims, int modulo = 251) {
  ByteVector out = idx_header(8, dims);
  size_t count = 1;
  for (const uint32_t dim : dims) count *= dim;
  for (size_t i = 0; i < count; ++i) {
    out.push_back(static_cast<uint8_t>(i % static_cast<size_t>(modulo)));
  }
  return out;
}

/// One gzip member of `bytes` and then `zeros` zero bytes, which are never in memory together.
/// Level 0 stores.
inline ByteVector gzip(std::span<const uint8_t> bytes, int level = 6, size_t zeros = 0) {
  z_stream stream{};
  if (deflateInit2(&stream, level, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2");
  }
  ByteVector out(deflateBound(&stream, bytes.size()) + 64 + zeros / 500);
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  const auto put = [&](std::span<const uint8_t> part, int flush) {
    stream.next_in = const_cast<uint8_t*>(part.data());
    stream.avail_in = static_cast<uInt>(part.size());
    if (deflate(&stream, flush) == Z_STREAM_ERROR || stream.avail_in != 0) {
      throw std::runtime_error("deflate");
    }
  };
  put(bytes, Z_NO_FLUSH);
  const ByteVector chunk(1 << 16);
  for (size_t done = 0; done < zeros; done += chunk.size()) {
    put(std::span(chunk).first(std::min(chunk.size(), zeros - done)), Z_NO_FLUSH);
  }
  put({}, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline ByteVector operator+(ByteVector a, std::span<const uint8_t> b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace muster::formats
