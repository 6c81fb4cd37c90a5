#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include <jpeglib.h>
// After jpeglib.h, which it needs.
#include <jerror.h>

#include "muster/base/text.h"
#include "muster/formats/image/decoders.h"
#include "muster/formats/image/library_steps.h"

// jpeg_crop_scanline and jpeg_skip_scanlines are libjpeg-turbo's own.
static_assert(LIBJPEG_TURBO_VERSION_NUMBER >= 2000000, "libjpeg-turbo 2.0 or later");

namespace muster::formats {
namespace {

/// Progressive files of more scans than this take time and give no picture; encoders make about 10.
constexpr int kMostScans = 500;
constexpr int64_t kBlock = 8;  ///< pixels of a side
constexpr int64_t kRowsAtOnce = 16;

/// One file, decoded once. Calls are steps: see Note [Errors of libjpeg and libpng].
class JpegFile : private LibrarySteps<JpegFile> {
  friend LibrarySteps;

 public:
  explicit JpegFile(const ImageRequest& request) : request_(request) {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr info) { of(info).fail_by_library(); };
    errors_.emit_message = [](j_common_ptr info, int level) { of(info).take_message(level); };
    errors_.output_message = [](j_common_ptr) {};
    info_.client_data = this;
    must([&] { jpeg_create_decompress(&info_); });
    info_.src = &source_;
    source_.next_input_byte = request.file.data();
    source_.bytes_in_buffer = request.file.size();
    source_.init_source = [](j_decompress_ptr) {};
    source_.fill_input_buffer = [](j_decompress_ptr info) -> boolean {
      of(reinterpret_cast<j_common_ptr>(info)).fail(Fault::kCutShort);
    };
    source_.skip_input_data = [](j_decompress_ptr info, long count) {
      of(reinterpret_cast<j_common_ptr>(info)).skip(count);
    };
    source_.resync_to_restart = &jpeg_resync_to_restart;
    source_.term_source = [](j_decompress_ptr) {};
    progress_.progress_monitor = [](j_common_ptr info) {
      if (of(info).info_.input_scan_number > kMostScans) of(info).fail(Fault::kTooManyScans);
    };
    info_.progress = &progress_;
  }
  JpegFile(const JpegFile&) = delete;
  JpegFile& operator=(const JpegFile&) = delete;
  ~JpegFile() { jpeg_destroy_decompress(&info_); }

  ImageHeader read_header() {
    must([&] { jpeg_read_header(&info_, TRUE); });
    const ImageHeader header{.format = ImageFormat::kJpeg,
                             .height = info_.image_height,
                             .width = info_.image_width,
                             .channels = info_.num_components,
                             .bits = info_.data_precision,
                             .is_progressive = info_.progressive_mode != FALSE};
    check_image_size(request_, header);
    check_channels();
    check_claim(header);
    return header;
  }

  Image decode() {
    ImageHeader header = read_header();
    if (!request_.region) shrink(header);
    const ImageRegion region = region_of(request_, header);
    info_.out_color_space = is_cmyk() ? JCS_CMYK : JCS_RGB;
    info_.dct_method = JDCT_ISLOW;
    info_.do_fancy_upsampling = TRUE;
    must([&] { jpeg_start_decompress(&info_); });
    const ImageRegion around = start_around(region);
    Image image = make_image(region);
    read_rows(region, around, image.pixels.get());
    if (!request_.region) read_end();
    image.complaint = complaint_.data();
    return image;
  }

 private:
  enum class Fault { kNone, kLibrary, kDamage, kCutShort, kTooManyScans };

  static JpegFile& of(j_common_ptr info) { return *static_cast<JpegFile*>(info->client_data); }

  /// What is asked for of libjpeg, whose transforms then give blocks of 4, 2 or 1 pixels of a side.
  void shrink(ImageHeader& header) {
    const int64_t by = jpeg_shrink(header.height, header.width, request_.options.least_side);
    info_.scale_num = 1;
    info_.scale_denom = static_cast<unsigned>(by);
    header.height = (header.height + by - 1) / by;
    header.width = (header.width + by - 1) / by;
  }

  // What libjpeg calls. ---------------------------------------------------------------------------

  [[noreturn]] void fail(Fault fault) {
    fault_ = fault;
    leave();
  }

  [[noreturn]] void fail_by_library() {
    errors_.format_message(reinterpret_cast<j_common_ptr>(&info_), message_.data());
    fail(Fault::kLibrary);
  }

  /// Below 0 are warnings: something is wrong, and libjpeg goes on with what it makes up.
  void take_message(int level) {
    if (level >= 0) return;
    const bool harmless = errors_.msg_code == JWRN_EXTRANEOUS_DATA ||
                          errors_.msg_code == JWRN_JFIF_MAJOR ||
                          errors_.msg_code == JWRN_ADOBE_XFORM;
    if (!harmless && !request_.options.keep_damaged) {
      errors_.format_message(reinterpret_cast<j_common_ptr>(&info_), message_.data());
      fail(Fault::kDamage);
    }
    if (complaint_[0] == '\0')
      errors_.format_message(reinterpret_cast<j_common_ptr>(&info_), complaint_.data());
  }

  void skip(long count) {
    if (count <= 0) return;
    const auto bytes = static_cast<size_t>(count);
    if (bytes > source_.bytes_in_buffer) {
      source_.bytes_in_buffer = 0;
      fail(Fault::kCutShort);
    }
    source_.next_input_byte += bytes;
    source_.bytes_in_buffer -= bytes;
  }

  Error error() const {
    const size_t at = request_.file.size() - source_.bytes_in_buffer;
    const std::string place = concat(" near byte ", at, " of ", request_.file.size());
    const auto damaged = [&](std::string rule, std::string value) {
      return damaged_image(request_, ImageFormat::kJpeg, std::move(rule), std::move(value));
    };
    switch (fault_) {
      case Fault::kCutShort:
        return damaged("it goes on to the end of its image",
                       concat("cut short after ", request_.file.size(), " bytes"));
      case Fault::kTooManyScans:
        return damaged(concat("it has at most ", kMostScans, " scans"), concat("more") + place);
      case Fault::kDamage:
        return damaged("libjpeg finds no fault in its data",
                       concat('"', message_.data(), '"', place));
      case Fault::kLibrary:
      case Fault::kNone:
        break;
    }
    return damaged("libjpeg can read it", concat('"', message_.data(), '"', place));
  }

  // Checks. ---------------------------------------------------------------------------------------

  bool is_cmyk() const { return info_.num_components == 4; }

  void check_channels() const {
    if (info_.num_components == 1 || info_.num_components == 3 || is_cmyk()) return;
    throw damaged_image(
        request_, ImageFormat::kJpeg, "it has 1, 3 or 4 channels", concat(info_.num_components));
  }

  /// Huffman coding spends a bit or more on each block of 8 x 8 pixels.
  void check_claim(const ImageHeader& header) const {
    if (request_.options.keep_damaged || info_.arith_code) return;
    const int64_t blocks =
        (header.width + kBlock - 1) / kBlock * ((header.height + kBlock - 1) / kBlock);
    if (blocks / 8 <= static_cast<int64_t>(request_.file.size())) return;
    throw damaged_image(request_,
                        ImageFormat::kJpeg,
                        concat("an image of ",
                               header.width,
                               " x ",
                               header.height,
                               " takes ",
                               blocks / 8,
                               " bytes or more"),
                        concat(request_.file.size()));
  }

  // Rows. -----------------------------------------------------------------------------------------

  /// Whether a part decodes to the same bytes as the whole does. Smoothing between blocks, which
  /// libjpeg does where a progressive file lacks scans, looks further than the margin reaches; of
  /// fractional sampling ratios nothing is known.
  bool is_cut_exact() const {
    for (int channel = 0; channel < info_.num_components; ++channel) {
      const jpeg_component_info& component = info_.comp_info[channel];
      if (info_.max_h_samp_factor % component.h_samp_factor != 0 ||
          info_.max_v_samp_factor % component.v_samp_factor != 0)
        return false;
      if (info_.coef_bits == nullptr) continue;
      const int* bits = info_.coef_bits[channel];
      if (std::any_of(bits, bits + DCTSIZE2, [](int left) { return left != 0; })) return false;
    }
    return true;
  }

  /// Tells libjpeg which columns and rows to leave out. The triangle filter of chroma looks at the
  /// neighbours, and treats edges in a way of its own, so a margin is decoded with the region. What is
  /// returned is what rows hold from now on, and where the first of them is.
  ImageRegion start_around(const ImageRegion& region) {
    const int64_t width = info_.output_width, height = info_.output_height;
    ImageRegion around{.height = height, .width = width};
    if (!request_.region || !is_cut_exact()) return around;
    const int64_t margin_x = info_.max_h_samp_factor * kBlock,
                  margin_y = info_.max_v_samp_factor * kBlock;
    const int64_t from = std::max<int64_t>(region.left - margin_x, 0);
    const int64_t to = std::min(region.left + region.width + margin_x, width);
    if (from > 0 || to < width) {
      auto first = static_cast<JDIMENSION>(from);
      auto count = static_cast<JDIMENSION>(to - from);
      must([&] { jpeg_crop_scanline(&info_, &first, &count); });
      around.left = first;
      around.width = count;
    }
    const auto above = static_cast<JDIMENSION>(std::max<int64_t>(region.top - 2 * margin_y, 0));
    if (above > 0) must([&] { jpeg_skip_scanlines(&info_, above); });
    around.top = above;
    return around;
  }

  /// `pixels` // [region.height, region.width, 3]
  void read_rows(const ImageRegion& region, const ImageRegion& around, uint8_t* pixels) {
    const auto out_bytes = static_cast<size_t>(region.width) * 3;
    if (around.width == region.width && !is_cmyk()) {
      pass_rows(around.top, region.top, around.width * 3);
      read_to(pixels, region.height, out_bytes);
      return;
    }
    const int64_t channels = is_cmyk() ? 4 : 3;
    pass_rows(around.top, region.top, around.width * channels);
    const auto row_bytes = static_cast<size_t>(around.width * channels);
    std::vector<uint8_t> rows(row_bytes * kRowsAtOnce);
    const uint8_t* wanted = rows.data() + (region.left - around.left) * channels;
    for (int64_t done = 0; done < region.height; done += kRowsAtOnce) {
      const int64_t count = std::min(region.height - done, kRowsAtOnce);
      read_to(rows.data(), count, row_bytes);
      for (int64_t row = 0; row < count; ++row, pixels += out_bytes) {
        const uint8_t* from = wanted + static_cast<size_t>(row) * row_bytes;
        if (is_cmyk()) {
          cmyk_to_rgb(from, region.width, pixels);
        } else {
          std::memcpy(pixels, from, out_bytes);
        }
      }
    }
  }

  /// Decodes rows that nobody wants.
  void pass_rows(int64_t from, int64_t to, int64_t row_bytes) {
    if (from == to) return;
    std::vector<uint8_t> row(static_cast<size_t>(row_bytes));
    for (; from < to; ++from) read_to(row.data(), 1, row.size());
  }

  void read_to(uint8_t* to, int64_t count, size_t row_bytes) {
    must([&] {
      std::array<JSAMPROW, kRowsAtOnce> rows;
      for (int64_t done = 0; done < count;) {
        const int64_t asked = std::min(count - done, kRowsAtOnce);
        for (int64_t i = 0; i < asked; ++i)
          rows[static_cast<size_t>(i)] = to + static_cast<size_t>(done + i) * row_bytes;
        const JDIMENSION got =
            jpeg_read_scanlines(&info_, rows.data(), static_cast<JDIMENSION>(asked));
        if (got == 0) fail(Fault::kCutShort);
        done += got;
      }
    });
  }

  /// What stands behind the image up to its end marker, which may be missing.
  void read_end() {
    if (!attempt([&] { jpeg_finish_decompress(&info_); }) && fault_ != Fault::kCutShort)
      throw error();
  }

  /// As Adobe stores it, each channel inverted; a*b/255 rounded as Pillow rounds it.
  static void cmyk_to_rgb(const uint8_t* from, int64_t count, uint8_t* to) {
    for (int64_t i = 0; i < count; ++i, from += 4, to += 3) {
      const int light = from[3];  // 255 - black
      for (int channel = 0; channel < 3; ++channel) {
        const int product = (255 - from[channel]) * light + 128;
        to[channel] = static_cast<uint8_t>(light - (((product >> 8) + product) >> 8));
      }
    }
  }

  const ImageRequest& request_;
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_source_mgr source_{};
  jpeg_progress_mgr progress_{};
  Fault fault_ = Fault::kNone;
  std::array<char, JMSG_LENGTH_MAX> message_{};
  std::array<char, JMSG_LENGTH_MAX> complaint_{};
};

}  // namespace

ImageHeader read_jpeg_header(const ImageRequest& request) {
  return JpegFile(request).read_header();
}

Image decode_jpeg(const ImageRequest& request) { return JpegFile(request).decode(); }

}  // namespace muster::formats
