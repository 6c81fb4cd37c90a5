#include "muster/track/picture/picture.h"

#include <algorithm>

#include "muster/base/overloaded.h"
#include "muster/base/text.h"
#include "muster/track/utf8.h"

namespace muster::track {
namespace {

// Of the height: covers the wide sans-serif fonts.
constexpr double kLetterShare = 0.575;
constexpr double kBoldShare = 0.62;

bool begins_letter(char byte) { return (static_cast<uint8_t>(byte) >> 6) != 2; }

}  // namespace

void Picture::place(const Picture& inner, double x, double y) {
  for (DrawCommand command : inner.commands()) {
    std::visit(Overloaded{[&](LineCommand& line) {
                            for (Point& point : line.points) point = {point.x + x, point.y + y};
                          },
                          [&](auto& other) {
                            other.x += x;
                            other.y += y;
                          }},
               command);
    add(std::move(command));
  }
}

double text_width(std::string_view text, double size, bool bold) {
  return static_cast<double>(display_width(text)) * size * (bold ? kBoldShare : kLetterShare);
}

std::string cut_text(std::string_view text, double width, double size, bool bold) {
  std::string clean = to_utf8(text);
  std::ranges::replace_if(
      clean, [](char c) { return static_cast<uint8_t>(c) < 0x20; }, ' ');
  const double letter = size * (bold ? kBoldShare : kLetterShare);
  const auto most = static_cast<size_t>(std::max(width / letter, 2.0));
  if (display_width(clean) <= most) return clean;
  size_t bytes = 0;
  for (size_t letters = 0; bytes < clean.size(); ++bytes) {
    if (begins_letter(clean[bytes]) && ++letters == most) break;
  }
  return clean.substr(0, bytes) + "\u2026";
}

}  // namespace muster::track
