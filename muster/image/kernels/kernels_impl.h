// Included by baseline.cpp and avx2.cpp alone: Note [Two builds of each loop] in kernels.h.
#include <string.h>  // NOLINT: of C, without inline functions

#include "muster/image/kernels/kernels.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace muster::image {
namespace MUSTER_IMAGE_BUILD {

constexpr int kTileRows = 16;

inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

inline uint8_t clamped(int32_t value) {
  return static_cast<uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
}
/// Cut off, as a float becomes a byte in LibTorch.
inline uint8_t byte_of(float value) {
  return static_cast<uint8_t>(static_cast<int32_t>(value < 0 ? 0 : value > 255 ? 255 : value));
}

inline void sum_lane(
    const TapTable& taps, int64_t output, const uint8_t* in, ptrdiff_t in_stride, uint8_t* out) {
  const int16_t* low = taps.low + output * taps.width;
  const int16_t* high = taps.high != nullptr ? taps.high + output * taps.width : nullptr;
  int32_t sum = int32_t{1} << (taps.bits - 1);
  for (int32_t t = 0; t < taps.count[output]; ++t) {
    const int32_t value = in[(taps.first[output] + t) * in_stride];
    sum += value * (low[t] + (high != nullptr ? high[t] * (1 << kHighShift) : 0));
  }
  *out = clamped(sum >> taps.bits);
}

#if defined(__AVX2__)

/// The 16-bit products of two rows' bytes with two weights, summed by lane: 0 … 7 and 8 … 15.
struct Sums {
  __m256i left, right;
};
inline void add_products(Sums& sums, __m128i a, __m128i b, __m256i pair_of_weights) {
  const __m256i left = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b));
  const __m256i right = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b));
  sums.left = _mm256_add_epi32(sums.left, _mm256_madd_epi16(left, pair_of_weights));
  sums.right = _mm256_add_epi32(sums.right, _mm256_madd_epi16(right, pair_of_weights));
}

inline __m256i two_weights(const int16_t* weights) {
  int32_t both = 0;
  memcpy(&both, weights, sizeof both);
  return _mm256_set1_epi32(both);
}

/// Lanes l … l+15.
template <bool TwoParts>
inline void sum_16_lanes(
    const TapTable& taps, int64_t output, const uint8_t* in, ptrdiff_t in_stride, uint8_t* out) {
  const int16_t* low = taps.low + output * taps.width;
  const int16_t* high = TwoParts ? taps.high + output * taps.width : nullptr;
  const __m256i half = _mm256_set1_epi32(1 << (taps.bits - 1));
  Sums lower{half, half};
  Sums upper{_mm256_setzero_si256(), _mm256_setzero_si256()};
  const uint8_t* at = in + taps.first[output] * in_stride;
  const int32_t count = taps.count[output];
  for (int32_t t = 0; t < count; t += 2, at += 2 * in_stride) {
    const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i b = t + 1 < count
                          ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + in_stride))
                          : _mm_setzero_si128();
    add_products(lower, a, b, two_weights(low + t));
    if constexpr (TwoParts) add_products(upper, a, b, two_weights(high + t));
  }
  if constexpr (TwoParts) {
    lower.left = _mm256_add_epi32(lower.left, _mm256_slli_epi32(upper.left, kHighShift));
    lower.right = _mm256_add_epi32(lower.right, _mm256_slli_epi32(upper.right, kHighShift));
  }
  const __m128i shift = _mm_cvtsi32_si128(taps.bits);
  const __m256i words = _mm256_permute4x64_epi64(
      _mm256_packs_epi32(_mm256_sra_epi32(lower.left, shift), _mm256_sra_epi32(lower.right, shift)),
      0xD8);
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(out),
      _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

template <bool TwoParts>
inline void sum_lanes(const TapTable& taps,
                      const uint8_t* in,
                      ptrdiff_t in_stride,
                      uint8_t* out,
                      ptrdiff_t out_stride,
                      int64_t lanes) {
  for (int64_t o = 0; o < taps.outputs; ++o) {
    uint8_t* row = out + o * out_stride;
    int64_t l = 0;
    for (; l + 16 <= lanes; l += 16) sum_16_lanes<TwoParts>(taps, o, in + l, in_stride, row + l);
    if (l == lanes) continue;
    if (lanes >= 16) {  // some once more
      sum_16_lanes<TwoParts>(taps, o, in + lanes - 16, in_stride, row + lanes - 16);
    } else {
      for (; l < lanes; ++l) sum_lane(taps, o, in + l, in_stride, row + l);
    }
  }
}

void weighted_sums(const TapTable& taps,
                   const uint8_t* in,
                   ptrdiff_t in_stride,
                   uint8_t* out,
                   ptrdiff_t out_stride,
                   int64_t lanes) {
  if (taps.high != nullptr) {
    sum_lanes<true>(taps, in, in_stride, out, out_stride, lanes);
  } else {
    sum_lanes<false>(taps, in, in_stride, out, out_stride, lanes);
  }
}

/// 16 rows of 16 bytes become columns: in step k, vectors whose numbers differ in bit k alone are
/// interleaved.
inline void transpose_16(__m128i (&v)[16]) {
  __m128i w[16];
  for (int step = 0; step < 4; ++step) {
    for (int i = 0; i < 8; ++i) {
      w[2 * i] = _mm_unpacklo_epi8(v[i], v[i + 8]);
      w[2 * i + 1] = _mm_unpackhi_epi8(v[i], v[i + 8]);
    }
    for (int i = 0; i < 16; ++i) v[i] = w[i];
  }
}

inline int64_t whole_tiles_in(const uint8_t* const* rows, int64_t columns, uint8_t* tile) {
  int64_t x = 0;
  for (; x + 16 <= columns; x += 16) {
    __m128i v[16];
    for (int i = 0; i < 16; ++i)
      v[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[i] + x));
    transpose_16(v);
    for (int i = 0; i < 16; ++i)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(tile + (x + i) * 16), v[i]);
  }
  return x;
}

inline int64_t whole_tiles_out(const uint8_t* tile,
                               int64_t columns,
                               uint8_t* const* rows,
                               int64_t count) {
  int64_t x = 0;
  for (; x + 16 <= columns; x += 16) {
    __m128i v[16];
    for (int i = 0; i < 16; ++i)
      v[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(tile + (x + i) * 16));
    transpose_16(v);
    for (int64_t i = 0; i < count; ++i)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(rows[i] + x), v[i]);
  }
  return x;
}

inline int64_t whole_vectors_reversed(const uint8_t* in, int64_t count, uint8_t* out) {
  const __m256i back = _mm256_setr_epi8(15,
                                        14,
                                        13,
                                        12,
                                        11,
                                        10,
                                        9,
                                        8,
                                        7,
                                        6,
                                        5,
                                        4,
                                        3,
                                        2,
                                        1,
                                        0,
                                        15,
                                        14,
                                        13,
                                        12,
                                        11,
                                        10,
                                        9,
                                        8,
                                        7,
                                        6,
                                        5,
                                        4,
                                        3,
                                        2,
                                        1,
                                        0);
  int64_t x = 0;
  for (; x + 32 <= count; x += 32) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + count - x - 32));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + x),
                        _mm256_permute4x64_epi64(_mm256_shuffle_epi8(v, back), 0x4E));
  }
  return x;
}

/// A table of 256 bytes is 16 of 16, of which a shuffle reads one. A byte of another sixteenth gets its
/// highest bit, by which a shuffle gives 0.
inline int64_t whole_vectors_by_table(const uint8_t* in,
                                      int64_t count,
                                      const uint8_t* table,
                                      uint8_t* out) {
  __m256i parts[16];
  for (int k = 0; k < 16; ++k)
    parts[k] = _mm256_broadcastsi128_si256(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(table + 16 * k)));
  const __m256i beyond = _mm256_set1_epi8(0x70), sixteen = _mm256_set1_epi8(16);
  int64_t x = 0;
  for (; x + 32 <= count; x += 32) {
    __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + x));
    __m256i found = _mm256_shuffle_epi8(parts[0], _mm256_adds_epu8(v, beyond));
    for (int k = 1; k < 16; ++k) {
      v = _mm256_sub_epi8(v, sixteen);
      found = _mm256_or_si256(found, _mm256_shuffle_epi8(parts[k], _mm256_adds_epu8(v, beyond)));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + x), found);
  }
  return x;
}

#else

void weighted_sums(const TapTable& taps,
                   const uint8_t* in,
                   ptrdiff_t in_stride,
                   uint8_t* out,
                   ptrdiff_t out_stride,
                   int64_t lanes) {
  for (int64_t o = 0; o < taps.outputs; ++o) {
    for (int64_t l = 0; l < lanes; ++l)
      sum_lane(taps, o, in + l, in_stride, out + o * out_stride + l);
  }
}

inline int64_t whole_tiles_in(const uint8_t* const*, int64_t, uint8_t*) { return 0; }
inline int64_t whole_tiles_out(const uint8_t*, int64_t, uint8_t* const*, int64_t) { return 0; }
inline int64_t whole_vectors_reversed(const uint8_t*, int64_t, uint8_t*) { return 0; }
inline int64_t whole_vectors_by_table(const uint8_t*, int64_t, const uint8_t*, uint8_t*) {
  return 0;
}

#endif

void to_columns(const uint8_t* const* rows, int64_t columns, uint8_t* tile) {
  for (int64_t x = whole_tiles_in(rows, columns, tile); x < columns; ++x) {
    for (int i = 0; i < kTileRows; ++i) tile[x * kTileRows + i] = rows[i][x];
  }
}

void to_rows(const uint8_t* tile, int64_t columns, uint8_t* const* rows, int64_t count) {
  for (int64_t x = whole_tiles_out(tile, columns, rows, count); x < columns; ++x) {
    for (int64_t i = 0; i < count; ++i) rows[i][x] = tile[x * kTileRows + i];
  }
}

void reversed(const uint8_t* in, int64_t count, uint8_t* out) {
  for (int64_t x = whole_vectors_reversed(in, count, out); x < count; ++x)
    out[x] = in[count - 1 - x];
}

void by_table(const uint8_t* in, int64_t count, const uint8_t* table, uint8_t* out) {
  for (int64_t x = whole_vectors_by_table(in, count, table, out); x < count; ++x)
    out[x] = table[in[x]];
}

void widen(const uint8_t* in, int64_t count, uint8_t* least, uint8_t* most) {
  uint8_t low = *least, high = *most;
  for (int64_t x = 0; x < count; ++x) {
    low = in[x] < low ? in[x] : low;
    high = in[x] > high ? in[x] : high;
  }
  *least = low;
  *most = high;
}

}  // namespace MUSTER_IMAGE_BUILD
}  // namespace muster::image

#include "muster/image/kernels/color_impl.h"

namespace muster::image {
namespace MUSTER_IMAGE_BUILD {

constexpr Kernels kKernels{.weighted_sums = &weighted_sums,
                           .to_columns = &to_columns,
                           .to_rows = &to_rows,
                           .reversed = &reversed,
                           .gray = &gray,
                           .saturation = &saturation,
                           .hue = &hue,
                           .hue_of_floats = &hue_of_floats,
                           .by_table = &by_table,
                           .widen = &widen,
                           .sharpness = &sharpness};

}  // namespace MUSTER_IMAGE_BUILD
}  // namespace muster::image
