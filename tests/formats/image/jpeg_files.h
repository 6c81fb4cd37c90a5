// JPEG files of any form, made by libjpeg's encoder: for what Pillow's cannot write.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include <jpeglib.h>

namespace muster::test {

struct JpegForm {
  int height = 0, width = 0;
  J_COLOR_SPACE stored = JCS_YCbCr;              ///< JCS_GRAYSCALE, RGB, YCbCr, CMYK, YCCK
  std::vector<std::array<int, 2>> factors = {};  ///< sampling of each channel, across and down
  bool progressive = false;
  bool arithmetic = false;
  int restart_every = 0;  ///< blocks between restart markers
  int quality = 85;
  bool only_averages = false;  ///< progressive, of which all scans but the first are left out
};

inline int channels_of(J_COLOR_SPACE stored) {
  return stored == JCS_GRAYSCALE ? 1 : stored == JCS_CMYK || stored == JCS_YCCK ? 4 : 3;
}

/// Slopes, blots and noise: no two regions are alike.
inline std::vector<uint8_t> drawn_pixels(int height, int width, int channels, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::vector<uint8_t> pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int channel = 0; channel < channels; ++channel) {
        const int slope = (x * (3 + channel) + y * (7 - channel)) % 256;
        const int blot = (x / 5 + y / 7 + channel) % 3 == 0 ? 90 : 0;
        const int noise = static_cast<int>(random() % 40);
        pixels.push_back(static_cast<uint8_t>(std::clamp(slope + blot + noise - 60, 0, 255)));
      }
    }
  }
  return pixels;
}

/// `pixels` // [height, width, channels]; empty: drawn ones
inline std::vector<uint8_t> jpeg_file(const JpegForm& form, std::vector<uint8_t> pixels = {}) {
  const int channels = channels_of(form.stored);
  if (pixels.empty()) pixels = drawn_pixels(form.height, form.width, channels);
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);  // ends the program: the forms are the tests' own
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&info, &memory, &bytes);
  info.image_width = static_cast<JDIMENSION>(form.width);
  info.image_height = static_cast<JDIMENSION>(form.height);
  info.input_components = channels;
  info.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, form.stored);
  jpeg_set_quality(&info, form.quality, TRUE);
  for (size_t channel = 0; channel < form.factors.size(); ++channel) {
    info.comp_info[channel].h_samp_factor = form.factors[channel][0];
    info.comp_info[channel].v_samp_factor = form.factors[channel][1];
  }
  static constexpr jpeg_scan_info kAverages[] = {
      {.comps_in_scan = 3, .component_index = {0, 1, 2}, .Ss = 0, .Se = 0, .Ah = 0, .Al = 1}};
  if (form.only_averages) {
    info.scan_info = kAverages;
    info.num_scans = 1;
  } else if (form.progressive) {
    jpeg_simple_progression(&info);
  }
  info.arith_code = form.arithmetic ? TRUE : FALSE;
  info.restart_interval = static_cast<unsigned>(form.restart_every);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = &pixels[static_cast<size_t>(info.next_scanline) *
                           static_cast<size_t>(form.width * channels)];
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::vector<uint8_t> file(memory, memory + bytes);
  std::free(memory);
  jpeg_destroy_compress(&info);
  return file;
}

/// Chroma as cameras and encoders store it, and as few do.
struct NamedForm {
  const char* name;
  JpegForm form;  ///< without a size
};

inline std::vector<NamedForm> jpeg_forms() {
  using Factors = std::vector<std::array<int, 2>>;
  const auto of = [](int across, int down) {
    return JpegForm{.factors = Factors{{across, down}, {1, 1}, {1, 1}}};
  };
  std::vector<NamedForm> forms = {{"4:4:4", of(1, 1)},
                                  {"4:2:2", of(2, 1)},
                                  {"4:2:0", of(2, 2)},
                                  {"4:4:0", of(1, 2)},
                                  {"4:1:1", of(4, 1)},
                                  {"4:1:0", of(4, 2)},
                                  {"1:4", of(1, 4)}};
  for (NamedForm named : std::vector<NamedForm>(forms.begin(), forms.begin() + 4)) {
    named.form.progressive = true;
    forms.push_back(named);
    named.form.progressive = false;
    named.form.restart_every = 3;
    forms.push_back(named);
  }
  forms.push_back({"thirds", {.factors = {{3, 1}, {1, 1}, {1, 1}}}});
  forms.push_back({"grey", {.stored = JCS_GRAYSCALE}});
  forms.push_back({"grey of odd factors", {.stored = JCS_GRAYSCALE, .factors = {{2, 2}}}});
  forms.push_back({"progressive grey", {.stored = JCS_GRAYSCALE, .progressive = true}});
  forms.push_back({"stored as RGB", {.stored = JCS_RGB}});
  forms.push_back({"RGB 4:2:0", {.stored = JCS_RGB, .factors = {{2, 2}, {1, 1}, {1, 1}}}});
  forms.push_back({"CMYK", {.stored = JCS_CMYK}});
  forms.push_back({"YCCK", {.stored = JCS_YCCK}});
  forms.push_back(
      {"YCCK 4:2:0", {.stored = JCS_YCCK, .factors = {{2, 2}, {1, 1}, {1, 1}, {2, 2}}}});
  forms.push_back({"arithmetic", {.factors = {{2, 2}, {1, 1}, {1, 1}}, .arithmetic = true}});
  forms.push_back({"averages alone", {.factors = {{2, 2}, {1, 1}, {1, 1}}, .only_averages = true}});
  return forms;
}

}  // namespace muster::test
