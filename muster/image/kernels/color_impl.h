// Included by kernels_impl.h alone: colours of pixels in a row, as torchvision's tensor kernels have
// them (torchvision.transforms.v2.functional, _color.py): float32, in the order given here.
namespace muster::image {
namespace MUSTER_IMAGE_BUILD {

/// Before it is cut off to a whole number.
inline float luma(float r, float g, float b) {
  return fused(b, 0.114F, fused(g, 0.587F, r * 0.2989F));
}

inline void gray_row(const uint8_t* r,
                     const uint8_t* g,
                     const uint8_t* b,
                     int64_t step,
                     int64_t count,
                     uint8_t* __restrict out) {
  for (int64_t x = 0; x < count; ++x)
    out[x] =
        static_cast<uint8_t>(static_cast<int32_t>(luma(r[x * step], g[x * step], b[x * step])));
}

void gray(const RgbRow& in, int64_t count, uint8_t* out) {
  if (in.step == 1) {
    gray_row(in.r, in.g, in.b, 1, count, out);
  } else {
    gray_row(in.r, in.g, in.b, in.step, count, out);
  }
}

inline void saturation_row(const uint8_t* r,
                           const uint8_t* g,
                           const uint8_t* b,
                           int64_t step,
                           int64_t count,
                           float ratio,
                           float rest,
                           uint8_t* __restrict out_r,
                           uint8_t* __restrict out_g,
                           uint8_t* __restrict out_b,
                           int64_t out_step) {
  for (int64_t x = 0; x < count; ++x) {
    const float red = r[x * step], green = g[x * step], blue = b[x * step];
    const auto level = static_cast<float>(static_cast<int32_t>(luma(red, green, blue)));
    out_r[x * out_step] = byte_of(fused(level, rest, red * ratio));
    out_g[x * out_step] = byte_of(fused(level, rest, green * ratio));
    out_b[x * out_step] = byte_of(fused(level, rest, blue * ratio));
  }
}

void saturation(const RgbRow& in, int64_t count, double ratio, const MutableRgbRow& out) {
  const auto share = static_cast<float>(ratio), rest = static_cast<float>(1.0 - ratio);
  if (in.step == 1 && out.step == 1) {
    saturation_row(in.r, in.g, in.b, 1, count, share, rest, out.r, out.g, out.b, 1);
  } else {
    saturation_row(in.r, in.g, in.b, in.step, count, share, rest, out.r, out.g, out.b, out.step);
  }
}

struct Rgb {
  float r, g, b;
};

inline float whole(float value) { return static_cast<float>(static_cast<int32_t>(value)); }
inline float in_0_1(float value) { return value < 0 ? 0 : value > 1 ? 1 : value; }

/// To hue, saturation and value (Foley, van Dam et al. 1990), the hue turned, and back. Written
/// without branches, so that it is done for eight pixels at a time.
inline Rgb turned(float r, float g, float b, float turn) {
  const float r_g_min = r < g ? r : g, r_g_max = r > g ? r : g;
  const float least = r_g_min < b ? r_g_min : b, most = r_g_max > b ? r_g_max : b;
  const bool is_gray = most == least;
  const float range = most - least;
  const float s = range / (is_gray ? 1.0F : most);
  const float divisor = is_gray ? 1.0F : range;
  const float rc = (most - r) / divisor, gc = (most - g) / divisor, bc = (most - b) / divisor;
  const float of_red = bc - gc, of_green = (rc + 2.0F) - bc, of_blue = (gc + 4.0F) - rc;
  const float sixth = most == r ? of_red : most == g ? of_green : of_blue;
  float h = sixth * static_cast<float>(1.0 / 6.0) + 1.0F;
  h = h - whole(h);
  h = h + turn;
  h = h - whole(h);
  h = h < 0 ? h + 1.0F : h;
  const float h6 = h * 6.0F;
  const float floor6 = whole(h6);
  const float f = h6 - floor6;
  const float sector = floor6 == 6.0F ? 0.0F : floor6;
  const float sf = s * f, rest = 1.0F - s;
  const float v = most;
  const float q = in_0_1((1.0F - sf) * v), t = in_0_1((sf + rest) * v), p = in_0_1(rest * v);
  const bool is_0 = sector == 0.0F, is_1 = sector == 1.0F, is_2 = sector == 2.0F,
             is_3 = sector == 3.0F, is_4 = sector == 4.0F;
  return {is_0   ? v
          : is_1 ? q
          : is_2 ? p
          : is_3 ? p
          : is_4 ? t
                 : v,
          is_0   ? t
          : is_1 ? v
          : is_2 ? v
          : is_3 ? q
                 : p,
          is_0   ? p
          : is_1 ? p
          : is_2 ? t
          : is_3 ? v
          : is_4 ? v
                 : q};
}

inline void hue_row(const uint8_t* r,
                    const uint8_t* g,
                    const uint8_t* b,
                    int64_t step,
                    int64_t count,
                    float turn,
                    uint8_t* __restrict out_r,
                    uint8_t* __restrict out_g,
                    uint8_t* __restrict out_b,
                    int64_t out_step) {
  constexpr auto kScale = static_cast<float>(1.0 / 255.0);
  constexpr auto kBack = static_cast<float>(255.0 + 1.0 - 1e-3);
  for (int64_t x = 0; x < count; ++x) {
    const Rgb rgb = turned(static_cast<float>(r[x * step]) * kScale,
                           static_cast<float>(g[x * step]) * kScale,
                           static_cast<float>(b[x * step]) * kScale,
                           turn);
    out_r[x * out_step] = static_cast<uint8_t>(static_cast<int32_t>(rgb.r * kBack));
    out_g[x * out_step] = static_cast<uint8_t>(static_cast<int32_t>(rgb.g * kBack));
    out_b[x * out_step] = static_cast<uint8_t>(static_cast<int32_t>(rgb.b * kBack));
  }
}

void hue(const RgbRow& in, int64_t count, double turn, const MutableRgbRow& out) {
  const auto by = static_cast<float>(turn);
  if (in.step == 1 && out.step == 1) {
    hue_row(in.r, in.g, in.b, 1, count, by, out.r, out.g, out.b, 1);
  } else {
    hue_row(in.r, in.g, in.b, in.step, count, by, out.r, out.g, out.b, out.step);
  }
}

inline void float_hue_row(const float* r,
                          const float* g,
                          const float* b,
                          int64_t count,
                          float turn,
                          float* __restrict out_r,
                          float* __restrict out_g,
                          float* __restrict out_b) {
  for (int64_t x = 0; x < count; ++x) {
    const Rgb rgb = turned(r[x], g[x], b[x], turn);
    out_r[x] = rgb.r;
    out_g[x] = rgb.g;
    out_b[x] = rgb.b;
  }
}

void hue_of_floats(const float* const* in, int64_t count, double turn, float* const* out) {
  float_hue_row(in[0], in[1], in[2], count, static_cast<float>(turn), out[0], out[1], out[2]);
}

/// The blurred pixel is (8 neighbours + 5 pixel) / 13, rounded; 13 is odd, so it is never half way.
void sharpness(const uint8_t* above,
               const uint8_t* row,
               const uint8_t* below,
               int64_t count,
               double factor,
               uint8_t* out) {
  const auto rest = static_cast<float>(1.0 - factor);
  uint8_t* __restrict to = out;
  for (int64_t x = 1; x < count - 1; ++x) {
    const int32_t sum = above[x - 1] + above[x] + above[x + 1] + row[x - 1] + 5 * row[x] +
                        row[x + 1] + below[x - 1] + below[x] + below[x + 1];
    const int32_t blurred = (2 * sum + 13) / 26;
    const float pixel = row[x];
    to[x] = byte_of(fused(static_cast<float>(blurred) - pixel, rest, pixel));
  }
}

}  // namespace MUSTER_IMAGE_BUILD
}  // namespace muster::image
