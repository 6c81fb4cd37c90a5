#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include <png.h>

#include "muster/base/text.h"
#include "muster/formats/image/decoders.h"
#include "muster/formats/image/library_steps.h"

namespace muster::formats {
namespace {

constexpr int64_t kMostBytesOfDeflatedOne = 1032;  // 258 bytes from 2 bits

/// One file, decoded once. Calls are steps: see Note [Errors of libjpeg and libpng].
class PngFile : private LibrarySteps<PngFile> {
  friend LibrarySteps;

 public:
  explicit PngFile(const ImageRequest& request) : request_(request) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, &PngFile::fail, &PngFile::ignore);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ != nullptr) return;
    png_destroy_read_struct(&png_, nullptr, nullptr);
    throw environment_error({.refused = "out of memory"});
  }
  PngFile(const PngFile&) = delete;
  PngFile& operator=(const PngFile&) = delete;
  ~PngFile() { png_destroy_read_struct(&png_, &info_, nullptr); }

  ImageHeader read_header() {
    must([&] {
      png_set_read_fn(png_, this, &PngFile::read);
      // No more than size, palette and pixels: profiles and texts may be packed, and large.
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
      png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // see check_image_size()
      png_read_info(png_, info_);
    });
    ImageHeader header{.format = ImageFormat::kPng,
                       .height = png_get_image_height(png_, info_),
                       .width = png_get_image_width(png_, info_),
                       .channels = png_get_channels(png_, info_),
                       .bits = png_get_bit_depth(png_, info_),
                       .has_palette = png_get_color_type(png_, info_) == PNG_COLOR_TYPE_PALETTE,
                       .is_progressive = png_get_interlace_type(png_, info_) != PNG_INTERLACE_NONE};
    check_image_size(request_, header);
    check_claim(header);
    return header;
  }

  Image decode() {
    const ImageHeader header = read_header();
    const ImageRegion region = region_of(request_, header);
    take_kind(header);
    must([&] {
      png_set_packing(png_);  // a byte for each pixel of fewer bits
      png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
    });
    Image image = make_image(region);
    header.is_progressive ? read_interlaced(header, region, image.pixels.get())
                          : read_rows(region, image.pixels.get());
    return image;
  }

 private:
  // What libpng calls. ----------------------------------------------------------------------------

  [[noreturn]] static void fail(png_structp png, png_const_charp message) {
    auto& self = *static_cast<PngFile*>(png_get_error_ptr(png));
    std::strncpy(self.message_.data(), message, self.message_.size() - 1);
    self.leave();
  }

  static void ignore(png_structp, png_const_charp) {}

  static void read(png_structp png, png_bytep to, size_t count) {
    auto& self = *static_cast<PngFile*>(png_get_io_ptr(png));
    if (count > self.request_.file.size() - self.at_) {
      self.cut_short_ = true;
      png_error(png, "cut short");
    }
    std::memcpy(to, self.request_.file.data() + self.at_, count);
    self.at_ += count;
  }

  Error error() const {
    if (cut_short_)
      return damaged("it goes on to the end of its image",
                     concat("cut short after ", request_.file.size(), " bytes"));
    return damaged(
        "libpng can read it",
        concat('"', message_.data(), "\" near byte ", at_, " of ", request_.file.size()));
  }

  Error damaged(std::string rule, std::string value) const {
    return damaged_image(request_, ImageFormat::kPng, std::move(rule), std::move(value));
  }

  void check_claim(const ImageHeader& header) const {
    const int64_t bytes = header.width * header.height * header.channels * header.bits / 8;
    if (bytes / kMostBytesOfDeflatedOne <= static_cast<int64_t>(request_.file.size())) return;
    throw damaged(concat("an image of ",
                         header.width,
                         " x ",
                         header.height,
                         " takes ",
                         bytes / kMostBytesOfDeflatedOne,
                         " bytes or more"),
                  concat(request_.file.size()));
  }

  // Pixels. ---------------------------------------------------------------------------------------

  void take_kind(const ImageHeader& header) {
    channels_ = header.channels;
    is_wide_ = header.bits == 16;
    pixel_bytes_ = channels_ * (is_wide_ ? 2 : 1);
    if (header.has_palette) {
      png_colorp colors = nullptr;
      int count = 0;
      must([&] { png_get_PLTE(png_, info_, &colors, &count); });
      for (int i = 0; i < std::min(count, 256); ++i)
        table_[static_cast<size_t>(i)] = {colors[i].red, colors[i].green, colors[i].blue};
    } else if (channels_ <= 2 && !is_wide_) {
      const int step = 255 / ((1 << header.bits) - 1);
      for (int i = 0; i < 256; ++i) {
        const auto grey = static_cast<uint8_t>(i * step);
        table_[static_cast<size_t>(i)] = {grey, grey, grey};
      }
    }
  }

  /// `from` // [width, channels], of bytes or of pairs, the most significant first
  void to_rgb(const uint8_t* from, int64_t width, uint8_t* to) const {
    if (channels_ >= 3) {
      const int step = is_wide_ ? 2 : 1;
      if (pixel_bytes_ == 3) {
        std::memcpy(to, from, static_cast<size_t>(width) * 3);
        return;
      }
      for (int64_t x = 0; x < width; ++x, from += pixel_bytes_, to += 3) {
        to[0] = from[0];
        to[1] = from[step];
        to[2] = from[2 * step];
      }
      return;
    }
    for (int64_t x = 0; x < width; ++x, from += pixel_bytes_, to += 3) {
      if (is_wide_) {
        // Pillow reads grey of 16 bits as numbers of 0 to 65535, of which 255 is white; with alpha
        // beside it, as high bytes.
        const uint8_t grey = channels_ == 1 && from[0] != 0 ? 255 : from[channels_ == 1 ? 1 : 0];
        to[0] = to[1] = to[2] = grey;
      } else {
        std::memcpy(to, table_[*from].data(), 3);
      }
    }
  }

  void read_rows(const ImageRegion& region, uint8_t* pixels) {
    const auto out_bytes = static_cast<size_t>(region.width) * 3;
    std::vector<uint8_t> row(row_bytes());
    for (int64_t y = 0; y < region.top + region.height; ++y) {
      must([&] { png_read_row(png_, row.data(), nullptr); });
      if (y < region.top) continue;
      to_rgb(row.data() + region.left * pixel_bytes_, region.width, pixels);
      pixels += out_bytes;
    }
  }

  /// Adam7: rows are complete after the last of 7 passes.
  void read_interlaced(const ImageHeader& header, const ImageRegion& region, uint8_t* pixels) {
    const size_t bytes = row_bytes();
    std::vector<uint8_t> whole(bytes * static_cast<size_t>(header.height));
    must([&] {
      for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; ++pass) {
        for (int64_t y = 0; y < header.height; ++y)
          png_read_row(png_, &whole[static_cast<size_t>(y) * bytes], nullptr);
      }
    });
    for (int64_t y = 0; y < region.height; ++y)
      to_rgb(&whole[static_cast<size_t>(region.top + y) * bytes] + region.left * pixel_bytes_,
             region.width,
             pixels + y * region.width * 3);
  }

  size_t row_bytes() const { return png_get_rowbytes(png_, info_); }

  const ImageRequest& request_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::array<char, 200> message_{};
  size_t at_ = 0;  // in the file
  bool cut_short_ = false;

  int channels_ = 0;
  bool is_wide_ = false;                             // two bytes for a channel
  int64_t pixel_bytes_ = 0;                          // of an unpacked row
  std::array<std::array<uint8_t, 3>, 256> table_{};  // what a byte of grey or of palette is
};

}  // namespace

ImageHeader read_png_header(const ImageRequest& request) { return PngFile(request).read_header(); }

Image decode_png(const ImageRequest& request) { return PngFile(request).decode(); }

}  // namespace muster::formats
