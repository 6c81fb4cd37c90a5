#include "muster/track/picture/picture_svg.h"

#include <cmath>

#include "muster/base/overloaded.h"
#include "muster/base/text.h"
#include "muster/track/utf8.h"

namespace muster::track {
namespace {

using Tip = std::function<std::string(int64_t item)>;

int number_of(Ink ink) { return static_cast<int>(ink); }

/// Of the classes f1 (filled with ink 1) and l1 (a line of ink 1).
std::string ink_rules(Rgb (*rgb)(Ink)) {
  std::string out;
  for (int i = 1; i < kInks; ++i) {
    const std::string colour = hex(rgb(static_cast<Ink>(i)));
    out += concat(".f", i, "{fill:", colour, "}.l", i, "{stroke:", colour, "}\n");
  }
  return out;
}

/// Attributes by name, as they are written.
class Element {
 public:
  explicit Element(std::string_view name) : name_(name), text_(concat('<', name)) {}

  Element& with(std::string_view attribute, double value) {
    return with(attribute, coordinate(value));
  }
  Element& with(std::string_view attribute, std::string_view value) {
    ((text_ += ' ') += attribute) += "=\"";
    (text_ += value) += '"';
    return *this;
  }
  Element& opacity(double share) {
    if (share < 1) with("opacity", fixed(share, 2));
    return *this;
  }

  /// Closes it, with the item's number and tip.
  std::string of_item(int64_t item, const Tip& tip) {
    if (item < 0) return text_ + "/>\n";
    with("data-item", std::to_string(item));
    const std::string words = tip ? tip(item) : "";
    if (words.empty()) return text_ + "/>\n";
    return concat(text_, "><title>", escape_xml(words), "</title></", name_, ">\n");
  }

 private:
  std::string_view name_;
  std::string text_;
};

std::string line_svg(const LineCommand& line, const Tip& tip) {
  Element path("path");
  path.with("class", concat("l l", number_of(line.ink), line.dashed ? " dash" : ""))
      .with("d", path_data(line.points));
  if (line.width != 1.5) path.with("stroke-width", line.width);
  return path.opacity(line.opacity).of_item(line.item, tip);
}

std::string box_svg(const BoxCommand& box, const Tip& tip) {
  Element rect("rect");
  rect.with("class", concat('f', number_of(box.fill), box.crisp ? " crisp" : ""))
      .with("x", box.x)
      .with("y", box.y)
      .with("width", box.width)
      .with("height", box.height);
  return rect.opacity(box.opacity).of_item(box.item, tip);
}

std::string cross_data(double x, double y, double r) {
  return concat('M',
                coordinate(x - r),
                ' ',
                coordinate(y - r),
                'l',
                coordinate(2 * r),
                ' ',
                coordinate(2 * r),
                'm',
                coordinate(-2 * r),
                " 0l",
                coordinate(2 * r),
                ' ',
                coordinate(-2 * r));
}

std::string diamond_data(double x, double y, double r) {
  return concat('M',
                coordinate(x),
                ' ',
                coordinate(y - r),
                'l',
                coordinate(r),
                ' ',
                coordinate(r),
                'l',
                coordinate(-r),
                ' ',
                coordinate(r),
                'l',
                coordinate(-r),
                ' ',
                coordinate(-r),
                'z');
}

std::string mark_svg(const MarkCommand& mark, const Tip& tip) {
  const double r = mark.radius;
  const std::string edge = mark.outlined ? concat(" edge l", number_of(Ink::kPage)) : "";
  if (mark.shape == Shape::kDot || mark.shape == Shape::kRing) {
    const std::string look =
        mark.shape == Shape::kRing
            ? concat("ring l", number_of(mark.ink), " f", number_of(Ink::kPage))
            : concat('f', number_of(mark.ink), edge);
    return Element("circle")
        .with("class", look)
        .with("cx", mark.x)
        .with("cy", mark.y)
        .with("r", r)
        .of_item(mark.item, tip);
  }
  if (mark.shape == Shape::kDiamond) {
    return Element("path")
        .with("class", concat('f', number_of(mark.ink), edge))
        .with("d", diamond_data(mark.x, mark.y, 1.5 * r))
        .of_item(mark.item, tip);
  }
  const std::string data =
      mark.shape == Shape::kCross
          ? cross_data(mark.x, mark.y, r)
          : concat('M', coordinate(mark.x), ' ', coordinate(mark.y - r), 'v', coordinate(2 * r));
  return Element("path")
      .with("class", concat("l l", number_of(mark.ink)))
      .with("d", data)
      .of_item(mark.item, tip);
}

std::string words_svg(const TextCommand& words) {
  constexpr std::string_view kAnchors[] = {"", " mid", " end"};
  Element text("text");
  text.with("class",
            concat('f',
                   number_of(words.ink),
                   kAnchors[static_cast<size_t>(words.anchor)],
                   words.bold ? " bold" : "",
                   words.halo ? concat(" halo l", number_of(Ink::kPage)) : ""))
      .with("x", words.x)
      .with("y", words.y);
  if (words.size != 11) text.with("font-size", words.size);
  std::string out = text.of_item(-1, nullptr);
  out.resize(out.size() - 3);  // "/>\n"
  return concat(out, '>', escape_xml(words.text), "</text>\n");
}

std::string content(const Picture& picture, const Tip& tip) {
  std::string out;
  for (const DrawCommand& command : picture.commands()) {
    out += std::visit(Overloaded{[&](const LineCommand& line) { return line_svg(line, tip); },
                                 [&](const BoxCommand& box) { return box_svg(box, tip); },
                                 [&](const MarkCommand& mark) { return mark_svg(mark, tip); },
                                 [&](const TextCommand& words) { return words_svg(words); }},
                      command);
  }
  return out;
}

}  // namespace

std::string picture_style() {
  return concat(
      "svg text{font-family:system-ui,\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif}\n"
      "svg .bold{font-weight:600}.mid{text-anchor:middle}.end{text-anchor:end}\n"
      ".l{fill:none;stroke-linejoin:round;stroke-linecap:round}\n"
      ".halo{paint-order:stroke;stroke-width:3px;stroke-linejoin:round}.dash{stroke-dasharray:2 "
      "3}.edge{stroke-width:.8}.crisp{shape-rendering:crispEdges}\n",
      ink_rules(&light_rgb),
      "@media (prefers-color-scheme:dark){\n",
      ink_rules(&dark_rgb),
      "}\n");
}

std::string picture_svg(const Picture& picture) {
  return concat("<svg viewBox=\"0 0 ",
                coordinate(picture.width()),
                ' ',
                coordinate(picture.height()),
                "\" font-size=\"11\" stroke-width=\"1.5\" role=\"img\" aria-label=\"",
                escape_xml(picture.title()),
                "\">\n",
                content(picture, nullptr),
                "</svg>\n");
}

std::string picture_svg_document(const Picture& picture, const Tip& tip) {
  const std::string width = coordinate(picture.width()), height = coordinate(picture.height());
  return concat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ",
                width,
                ' ',
                height,
                "\" width=\"",
                width,
                "\" height=\"",
                height,
                "\" font-size=\"11\" stroke-width=\"1.5\" role=\"img\">\n<title>",
                escape_xml(picture.title()),
                "</title>\n<style>\n",
                picture_style(),
                "</style>\n<rect class=\"f",
                number_of(Ink::kPage),
                "\" width=\"100%\" height=\"100%\"/>\n",
                content(picture, tip),
                "</svg>\n");
}

}  // namespace muster::track
