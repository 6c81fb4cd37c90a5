// Pictures: one list of commands as SVG and as PNG.
#include "muster/track/picture/picture.h"

#include <cmath>

#include <gmock/gmock.h>
#include <png.h>

#include "muster/track/picture/contact_sheet.h"
#include "muster/track/picture/picture_png.h"
#include "muster/track/picture/picture_svg.h"

#include "tests/support/markup.h"

namespace muster::track {
namespace {

using test::elements_of;
using test::MarkupElement;
using testing::HasSubstr;
using testing::Not;

/// One of each kind of command.
Picture all_commands() {
  Picture picture(100, 50, "a <b> & \"c\"");
  picture.add(
      LineCommand{.points = {{1, 2}, {3.26, 4}}, .ink = Ink::kBad, .dashed = true, .item = 7});
  picture.add(BoxCommand{.x = 10, .y = 20, .width = 30, .height = 5, .opacity = 0.5, .item = 8});
  for (const Shape shape : {Shape::kDot, Shape::kRing, Shape::kCross, Shape::kDiamond, Shape::kBar})
    picture.add(MarkCommand{.x = 50, .y = 25, .shape = shape, .item = 9});
  picture.add(TextCommand{.x = 5, .y = 45, .text = "1 < 2 & 'x'", .anchor = Anchor::kEnd});
  return picture;
}

std::vector<MarkupElement> named(const std::vector<MarkupElement>& all, const std::string& name) {
  std::vector<MarkupElement> out;
  for (const MarkupElement& element : all) {
    if (element.name == name) out.push_back(element);
  }
  return out;
}

TEST(PictureSvg, HasEveryCommandWithItsItemAndEscapesText) {
  const auto all = elements_of(picture_svg(all_commands()));
  EXPECT_EQ(all[0].attribute("aria-label"), "a <b> & \"c\"");
  EXPECT_EQ(all[0].attribute("viewBox"), "0 0 100 50");
  const auto paths = named(all, "path");
  ASSERT_EQ(paths.size(), 4u) << "a line, a cross, a diamond, a bar";
  EXPECT_EQ(paths[0].attribute("d"), "M1 2L3.3 4");
  EXPECT_TRUE(paths[0].has_class("dash"));
  EXPECT_EQ(paths[0].attribute("data-item"), "7");
  const auto boxes = named(all, "rect");
  ASSERT_EQ(boxes.size(), 1u);
  EXPECT_EQ(boxes[0].number("width"), 30);
  EXPECT_EQ(boxes[0].number("opacity"), 0.5);
  EXPECT_EQ(named(all, "circle").size(), 2u);
  const auto words = named(all, "text");
  ASSERT_EQ(words.size(), 1u);
  EXPECT_EQ(words[0].text, "1 < 2 & 'x'");
  EXPECT_TRUE(words[0].has_class("end"));
}

TEST(PictureSvg, AsADocumentTellsOfItemsAndKnowsBothModes) {
  const std::string svg = picture_svg_document(
      all_commands(), [](int64_t item) { return "item <" + std::to_string(item) + ">"; });
  const auto all = elements_of(svg);
  EXPECT_EQ(all[0].attribute("xmlns"), "http://www.w3.org/2000/svg");
  const auto titles = named(all, "title");
  ASSERT_EQ(titles.size(), 8u) << "the picture's, and of seven with an item";
  EXPECT_EQ(titles[1].text, "item <7>");
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(svg, Not(HasSubstr("url(")));
}

TEST(Picture, PlacesAnotherMovedAsAWhole) {
  Picture outer(200, 200, "outer");
  outer.place(all_commands(), 100, 10);
  const auto all = elements_of(picture_svg(outer));
  EXPECT_EQ(named(all, "path")[0].attribute("d"), "M101 12L103.3 14");
  EXPECT_EQ(named(all, "rect")[0].number("x"), 110);
  EXPECT_EQ(named(all, "circle")[0].number("cy"), 35);
}

TEST(CutText, KeepsWhatFitsAndEndsAtACodePoint) {
  EXPECT_EQ(cut_text("short", 100), "short");
  const std::string cut = cut_text("Größenverhältnisse überall", 60);
  EXPECT_THAT(cut, testing::EndsWith("…"));
  EXPECT_LE(text_width(cut), 60);
  EXPECT_EQ(cut_text("a\nb", 100), "a b");
  EXPECT_EQ(cut_text("\xff", 100), "\uFFFD");
}

TEST(Ink, ScaleGoesFromFaintToStrongInBothModes) {
  const auto light = [](Rgb c) { return 0.2126 * c.red + 0.7152 * c.green + 0.0722 * c.blue; };
  for (int i = 1; i < kScaleInks; ++i) {
    const Ink a = scale_ink((i - 0.5) / kScaleInks), b = scale_ink((i + 0.5) / kScaleInks);
    EXPECT_GT(light(light_rgb(a)), light(light_rgb(b)));
    EXPECT_LT(light(dark_rgb(a)), light(dark_rgb(b)));
  }
  EXPECT_EQ(scale_ink(-1), scale_ink(0));
  EXPECT_EQ(scale_ink(2), scale_ink(1));
  EXPECT_EQ(scale_ink(NAN), Ink::kDim);
}

/// The pixels of a PNG file, as 0xrrggbb.
struct Pixels {
  png_uint_32 width = 0, height = 0;
  std::vector<uint8_t> rgb;

  uint32_t at(png_uint_32 x, png_uint_32 y) const {
    const uint8_t* p = &rgb[3 * (y * width + x)];
    return uint32_t{p[0]} << 16 | uint32_t{p[1]} << 8 | p[2];
  }
};

Pixels pixels_of(const std::string& bytes) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  EXPECT_TRUE(png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()));
  image.format = PNG_FORMAT_RGB;
  Pixels pixels{.width = image.width, .height = image.height};
  pixels.rgb.resize(PNG_IMAGE_SIZE(image));
  EXPECT_TRUE(png_image_finish_read(&image, nullptr, pixels.rgb.data(), 0, nullptr));
  return pixels;
}

TEST(PicturePng, DrawsTheSameThingsInTheirPlaces) {
  Picture picture(100, 50, "png");
  picture.add(
      BoxCommand{.x = 10, .y = 20, .width = 30, .height = 5, .fill = Ink::kBad, .crisp = true});
  picture.add(MarkCommand{.x = 70, .y = 25, .ink = Ink::kStrong, .radius = 4});
  const Pixels pixels = pixels_of(picture_png(picture, 2));
  EXPECT_EQ(pixels.width, 200u);
  EXPECT_EQ(pixels.height, 100u);
  EXPECT_EQ(pixels.at(1, 1), 0xffffffu);
  EXPECT_EQ(pixels.at(21, 41), 0xc62828u) << "the box's corner";
  EXPECT_EQ(pixels.at(18, 41), 0xffffffu) << "beside it";
  EXPECT_EQ(pixels.at(78, 48), 0xc62828u);
  EXPECT_EQ(pixels.at(140, 50), 0x14181fu) << "the dot";
}

TEST(PicturePng, TakesEveryCommandAndDrawsAllOfThem) {
  const Pixels pixels = pixels_of(picture_png(all_commands()));
  size_t drawn = 0;
  for (size_t i = 0; i < pixels.rgb.size(); i += 3) drawn += pixels.rgb[i] != 255;
  EXPECT_GT(drawn, 500u);
}

TEST(PicturePng, HasRastersBelowWhatIsDrawnWithEdgesKeptWhereTheyGrow) {
  Picture picture(40, 20, "raster");
  picture.add(
      BoxCommand{.x = 12, .y = 4, .width = 4, .height = 4, .fill = Ink::kBad, .crisp = true});
  const std::vector<uint8_t> rgb{255, 0, 0, 0, 255, 0};
  const Raster raster{
      .x = 10, .y = 2, .width = 20, .height = 10, .rows = 1, .columns = 2, .rgb = rgb};
  const Pixels pixels = pixels_of(picture_png(picture, 1, std::span(&raster, 1)));
  EXPECT_EQ(pixels.at(9, 5), 0xffffffu);
  EXPECT_EQ(pixels.at(10, 2), 0xff0000u);
  EXPECT_EQ(pixels.at(19, 11), 0xff0000u);
  EXPECT_EQ(pixels.at(20, 11), 0x00ff00u);
  EXPECT_EQ(pixels.at(29, 2), 0x00ff00u);
  EXPECT_EQ(pixels.at(30, 2), 0xffffffu);
  EXPECT_EQ(pixels.at(13, 5), 0xc62828u) << "the box lies above";
}

TEST(ContactSheet, HasAnImageInEachCellOfEachRow) {
  ContactSheet sheet{.title = "two", .notes = {"a note"}, .headings = {"as it is", "epoch 0"}};
  const auto plain = [](int64_t height, int64_t width, uint8_t red, uint8_t green) {
    SheetImage image{.height = height, .width = width, .caption = "plain"};
    for (int64_t i = 0; i < height * width; ++i)
      for (const uint8_t byte : {red, green, uint8_t{0}}) image.rgb.push_back(byte);
    return image;
  };
  sheet.rows.push_back(
      {.caption = "sample 1", .images = {plain(8, 8, 200, 0), plain(4, 8, 0, 200)}});
  sheet.rows.push_back({.caption = "sample 2", .images = {plain(400, 200, 0, 100)}});
  const auto of_colour = [](const Pixels& pixels, uint32_t colour) {
    int64_t count = 0;
    for (png_uint_32 y = 0; y < pixels.height; ++y)
      for (png_uint_32 x = 0; x < pixels.width; ++x) count += pixels.at(x, y) == colour ? 1 : 0;
    return count;
  };
  const Pixels pixels = pixels_of(contact_sheet_png(sheet, 100));
  // 8 pixels in a cell of 200: each is 25 wide; 400 of them are 200, but for the frame's line.
  EXPECT_NEAR(static_cast<double>(of_colour(pixels, 0xc80000)), 200 * 200, 900);
  EXPECT_NEAR(static_cast<double>(of_colour(pixels, 0x00c800)), 200 * 100, 900);
  EXPECT_NEAR(static_cast<double>(of_colour(pixels, 0x006400)), 100 * 200, 900);
  sheet.rows[0].images[0].outlines = {
      {.corners = {{2, 2}, {6, 2}, {6, 6}, {2, 6}}, .label = "box"}};
  sheet.rows[0].images[0].points = {{4, 4}, {90, 90}};
  const Pixels marked = pixels_of(contact_sheet_png(sheet, 100));
  EXPECT_GT(of_colour(marked, 0x1f6fd1), 300) << "the outline";
  EXPECT_GT(of_colour(marked, 0xc62828), 20) << "the point";
  EXPECT_EQ(marked.height, pixels.height);
}

TEST(PicturePng, OfATallPictureStaysWithinWhatCairoDraws) {
  Picture picture(20, 40000, "tall");
  EXPECT_LE(pixels_of(picture_png(picture)).height, 32767u);
}

}  // namespace
}  // namespace muster::track
