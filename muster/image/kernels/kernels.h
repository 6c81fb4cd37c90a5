// The inner loops over pixels, in two builds that give the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster::image {

// Note [Two builds of each loop]
// kernels_impl.h is compiled twice, for any processor in baseline.cpp and with AVX2 and FMA in
// avx2.cpp (the flags stand in muster/CMakeLists.txt), and kernels() picks what the processor can
// run. Both give the same bytes: sums are of whole numbers, and floats are added, multiplied and
// fused (std::fma) in an order that the source fixes; the room is compiled with -ffp-contract=off,
// so that a compiler fuses nothing else. Where LibTorch's AVX2 kernels fuse, these do, on any
// processor. kernels_impl.h includes no header with inline functions of others: a linker keeps one
// copy of those, of whichever build.

/// Weighted sums along one axis. Output o is
/// clamp((2^(bits-1) + sum_t weight[o][t] * in[first[o] + t]) >> bits, 0, 255), t below count[o].
struct TapTable {
  const int32_t* first;  ///< [outputs]
  const int32_t* count;  ///< [outputs], at least 1
  /// [outputs, width]: weights of 16 bits, or their lower 11 bits where there is `high`. Weights from
  /// count[o] on are 0.
  const int16_t* low;
  const int16_t* high;  ///< [outputs, width]: the weight's bits above; or null
  int64_t outputs;
  int64_t width;  ///< even
  int bits;
};
inline constexpr int kHighShift = 11;

/// The three channels of some pixels in a row, `step` bytes from one pixel to the next.
struct RgbRow {
  const uint8_t* r;
  const uint8_t* g;
  const uint8_t* b;
  int64_t step;
};
struct MutableRgbRow {
  uint8_t* r;
  uint8_t* g;
  uint8_t* b;
  int64_t step;
};

struct Kernels {
  /// For each lane l below `lanes`: out[o * out_stride + l] of in[(first + t) * in_stride + l].
  void (*weighted_sums)(const TapTable& taps,
                        const uint8_t* in,
                        ptrdiff_t in_stride,
                        uint8_t* out,
                        ptrdiff_t out_stride,
                        int64_t lanes);
  /// tile[x * 16 + i] = rows[i][x] for i below 16 and x below `columns`.
  void (*to_columns)(const uint8_t* const* rows, int64_t columns, uint8_t* tile);
  /// rows[i][x] = tile[x * 16 + i] for i below `count`, at most 16.
  void (*to_rows)(const uint8_t* tile, int64_t columns, uint8_t* const* rows, int64_t count);
  void (*reversed)(const uint8_t* in, int64_t count, uint8_t* out);
  void (*gray)(const RgbRow& in, int64_t count, uint8_t* out);
  /// Each channel times `ratio`, and the gray times 1 - ratio.
  void (*saturation)(const RgbRow& in, int64_t count, double ratio, const MutableRgbRow& out);
  /// `turn`: of the circle of hues, -0.5 … 0.5.
  void (*hue)(const RgbRow& in, int64_t count, double turn, const MutableRgbRow& out);
  /// The same of floats 0 … 1: planes without gaps.
  void (*hue_of_floats)(const float* const* in, int64_t count, double turn, float* const* out);
  /// out[i] = table[in[i]]; `out` may be `in`. `table` has 256 bytes.
  void (*by_table)(const uint8_t* in, int64_t count, const uint8_t* table, uint8_t* out);
  /// `least` and `most` become what they are with the bytes of `in`.
  void (*widen)(const uint8_t* in, int64_t count, uint8_t* least, uint8_t* most);
  /// Pixels 1 … count-2 of `row`; above, below and row have `count` each.
  void (*sharpness)(const uint8_t* above,
                    const uint8_t* row,
                    const uint8_t* below,
                    int64_t count,
                    double factor,
                    uint8_t* out);
};

/// The fastest that this processor runs.
const Kernels& kernels();
/// For any processor, and for one with AVX2 and FMA: null where it was not compiled, or cannot be
/// run. For tests.
const Kernels& baseline_kernels();
const Kernels* avx2_kernels();

}  // namespace muster::image
