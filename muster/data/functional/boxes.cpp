#include "muster/data/functional/boxes.h"

#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include <ATen/ops/atan2.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::data::functional {
namespace {

struct FormatFacts {
  BoxFormat format;
  std::string_view name;
  int64_t numbers;
};
constexpr std::array<FormatFacts, 6> kFormats{{{BoxFormat::kXyxy, "xyxy", 4},
                                               {BoxFormat::kXywh, "xywh", 4},
                                               {BoxFormat::kCxcywh, "cxcywh", 4},
                                               {BoxFormat::kXywhr, "xywhr", 5},
                                               {BoxFormat::kCxcywhr, "cxcywhr", 5},
                                               {BoxFormat::kXyxyxyxy, "xyxyxyxy", 8}}};

const FormatFacts& facts_of(BoxFormat format) { return kFormats[static_cast<size_t>(format)]; }

at::Tensor column(const at::Tensor& boxes, int64_t number) { return boxes.select(1, number); }

at::Tensor radians(const at::Tensor& degrees) { return degrees.mul(std::numbers::pi).div(180); }

/// Two columns of numbers behind two others.
at::Tensor pairs(const at::Tensor& first, const at::Tensor& second) {
  return at::cat({first, second}, 1);
}

/// Half the diagonal from the first corner to the middle, by turns.
std::array<at::Tensor, 2> to_middle(const at::Tensor& boxes) {
  const at::Tensor turn = radians(column(boxes, 4)), cos = turn.cos(), sin = turn.sin();
  const at::Tensor half_width = column(boxes, 2).div(2), half_height = column(boxes, 3).div(2);
  return {half_width.mul(cos).add_(half_height.mul(sin)),
          half_height.mul(cos).sub_(half_width.mul(sin))};
}

at::Tensor moved_by(const at::Tensor& boxes, const std::array<at::Tensor, 2>& by, double sign) {
  at::Tensor out = boxes.clone();
  column(out, 0).add_(by[0], sign);
  column(out, 1).add_(by[1], sign);
  return out;
}

at::Tensor corners_of_turned(const at::Tensor& xywhr) {
  const at::Tensor x = column(xywhr, 0), y = column(xywhr, 1);
  const at::Tensor width = column(xywhr, 2), height = column(xywhr, 3);
  const at::Tensor turn = radians(column(xywhr, 4)), cos = turn.cos(), sin = turn.sin();
  const at::Tensor right = width.mul(cos), up = width.mul(sin);
  const at::Tensor aside = height.mul(sin), down = height.mul(cos);
  return at::stack({x,
                    y,
                    x.add(right),
                    y.sub(up),
                    x.add(right.add(aside)),
                    y.sub(up.sub(down)),
                    x.add(aside),
                    y.add(down)},
                   1);
}

at::Tensor turned_of_corners(const at::Tensor& corners) {
  const auto side = [&](int64_t from, int64_t to) {
    const at::Tensor by = corners.narrow(1, to, 2).sub(corners.narrow(1, from, 2));
    return by.pow(2).sum(1).sqrt();
  };
  const at::Tensor turn = at::atan2(column(corners, 1).sub(column(corners, 3)),
                                    column(corners, 2).sub(column(corners, 0)));
  return at::stack({column(corners, 0),
                    column(corners, 1),
                    side(0, 2),
                    side(2, 4),
                    turn.div(std::numbers::pi).mul(180)},
                   1);
}

at::Tensor to_xyxy(const at::Tensor& boxes, BoxFormat from) {
  const at::Tensor first = boxes.narrow(1, 0, 2), second = boxes.narrow(1, 2, 2);
  if (from == BoxFormat::kXywh) return pairs(first, second.add(first));
  const at::Tensor corner = first.sub(second.div(2));
  return pairs(corner, second.add(corner));
}

at::Tensor from_xyxy(const at::Tensor& boxes, BoxFormat to) {
  const at::Tensor first = boxes.narrow(1, 0, 2), size = boxes.narrow(1, 2, 2).sub(first);
  if (to == BoxFormat::kXywh) return pairs(first, size);
  return pairs(first.mul(2).add_(size).div_(2), size);
}

at::Tensor to_xywhr(const at::Tensor& boxes, BoxFormat from) {
  if (from == BoxFormat::kXywhr) return boxes;
  if (from == BoxFormat::kXyxyxyxy) return turned_of_corners(boxes);
  return moved_by(boxes, to_middle(boxes), -1);
}

at::Tensor from_xywhr(const at::Tensor& boxes, BoxFormat to) {
  if (to == BoxFormat::kXywhr) return boxes;
  if (to == BoxFormat::kXyxyxyxy) return corners_of_turned(boxes);
  return moved_by(boxes, to_middle(boxes), 1);
}

/// A sheared rectangle becomes one again: its longer diagonal stays where it is.
/// corners // [N, 8]
at::Tensor straightened(const at::Tensor& corners) {
  const auto vector = [&](int64_t to) {
    return corners.narrow(1, to, 2).sub(corners.narrow(1, 0, 2));
  };
  const auto length = [](const at::Tensor& by) { return by.pow(2).sum(1).sqrt(); };
  const auto angle = [](const at::Tensor& by) {
    return at::atan2(column(by, 1).neg(), column(by, 0));
  };
  const at::Tensor across = vector(2), down = vector(6);
  const at::Tensor w = length(across), h = length(down);
  const at::Tensor between = angle(across).sub(angle(down));
  const at::Tensor cos = between.cos(), sin = between.sin();
  const at::Tensor sign =
      at::where(between.gt(std::numbers::pi / 2), at::Scalar(-1), at::Scalar(1));
  const at::Tensor width = at::where(w.lt(h), w.mul(sin), w.add(h.mul(cos).mul(sign)));
  const at::Tensor height = at::where(w.gt(h), h.mul(sin), h.add(w.mul(cos).mul(sign)));
  const at::Tensor turn = at::where(h.gt(w), angle(down).add(std::numbers::pi / 2), angle(across));
  const at::Tensor middle = corners.narrow(1, 0, 2).add(corners.narrow(1, 4, 2)).div_(2);
  const at::Tensor x = column(middle, 0), y = column(middle, 1);
  const at::Tensor c = turn.cos(), s = turn.sin();
  const at::Tensor wc = width.div(2).mul(c), ws = width.div(2).mul(s);
  const at::Tensor hc = height.div(2).mul(c), hs = height.div(2).mul(s);
  return at::stack({x.sub(wc).sub(hs),
                    y.sub(hc).add(ws),
                    x.add(wc).sub(hs),
                    y.sub(hc).sub(ws),
                    x.add(wc).add(hs),
                    y.add(hc).sub(ws),
                    x.sub(wc).add(hs),
                    y.add(hc).add(ws)},
                   1);
}

using Polygon = std::vector<Point>;

/// The part where inside(point) is at least 0.
template <class Inside>
Polygon cut(const Polygon& polygon, Inside inside) {
  Polygon kept;
  for (size_t i = 0; i < polygon.size(); ++i) {
    const Point &from = polygon[i], &to = polygon[(i + 1) % polygon.size()];
    const double a = inside(from), b = inside(to);
    if (a >= 0) kept.push_back(from);
    if ((a < 0) == (b < 0)) continue;
    const double share = a / (a - b);
    kept.push_back({from.x + share * (to.x - from.x), from.y + share * (to.y - from.y)});
  }
  return kept;
}

double area(const Polygon& polygon) {
  double twice = 0;
  for (size_t i = 0; i < polygon.size(); ++i) {
    const Point &p = polygon[i], &q = polygon[(i + 1) % polygon.size()];
    twice += p.x * q.y - q.x * p.y;
  }
  return std::abs(twice) / 2;
}

/// Sutherland, Hodgman 1974. corners // [N, 8]  ->  [N]
at::Tensor areas_inside(const at::Tensor& corners, const image::Size& size) {
  const auto width = static_cast<double>(size.width), height = static_cast<double>(size.height);
  const at::Tensor doubles = corners.to(at::kDouble).contiguous();
  at::Tensor areas = at::empty({corners.size(0)}, at::kDouble);
  for (int64_t row = 0; row < corners.size(0); ++row) {
    const auto* n = doubles.const_data_ptr<double>() + row * 8;
    Polygon polygon{{n[0], n[1]}, {n[2], n[3]}, {n[4], n[5]}, {n[6], n[7]}};
    polygon = cut(polygon, [](const Point& p) { return p.x; });
    polygon = cut(polygon, [](const Point& p) { return p.y; });
    polygon = cut(polygon, [&](const Point& p) { return width - p.x; });
    polygon = cut(polygon, [&](const Point& p) { return height - p.y; });
    areas.mutable_data_ptr<double>()[row] = area(polygon);
  }
  return areas.to(corners.scalar_type());
}

}  // namespace

std::string_view to_string(BoxFormat format) { return facts_of(format).name; }
int64_t numbers_of(BoxFormat format) { return facts_of(format).numbers; }
bool is_rotated(BoxFormat format) { return numbers_of(format) > 4; }

std::optional<BoxFormat> box_format_of(std::string_view name) {
  for (const FormatFacts& facts : kFormats) {
    if (facts.name == name) return facts.format;
  }
  return std::nullopt;
}

at::Tensor convert_boxes(const at::Tensor& boxes, BoxFormat from, BoxFormat to) {
  if (from == to) return boxes.clone();
  if (is_rotated(from) != is_rotated(to)) {
    throw usage_error({.refused = concat("boxes ", to_string(from), " as ", to_string(to)),
                       .rule = "upright boxes stay upright, and rotated ones rotated"});
  }
  if (is_rotated(from)) return from_xywhr(to_xywhr(boxes, from), to);
  const at::Tensor corners = from == BoxFormat::kXyxy ? boxes : to_xyxy(boxes, from);
  return to == BoxFormat::kXyxy ? corners : from_xyxy(corners, to);
}

at::Tensor horizontal_flip_boxes(const at::Tensor& boxes, BoxFormat format, int64_t width) {
  at::Tensor out = boxes.clone();
  const auto flip = [&](int64_t number) { column(out, number).sub_(width).neg_(); };
  switch (format) {
    case BoxFormat::kXyxy:
      flip(0);
      flip(2);
      return out.index_select(1, at::tensor({2, 1, 0, 3}));
    case BoxFormat::kXywh:
      column(out, 0).add_(column(boxes, 2));
      flip(0);
      return out;
    case BoxFormat::kCxcywh:
      flip(0);
      return out;
    case BoxFormat::kXywhr: {
      const at::Tensor turn = radians(column(boxes, 4));
      column(out, 0).add_(column(boxes, 2).mul(turn.cos()));
      column(out, 1).sub_(column(boxes, 2).mul(turn.sin()));
      flip(0);
      column(out, 4).neg_();
      return out;
    }
    case BoxFormat::kCxcywhr:
      flip(0);
      column(out, 4).neg_();
      return out;
    case BoxFormat::kXyxyxyxy:
      for (const int64_t x : {0, 2, 4, 6}) flip(x);
      return out.index_select(1, at::tensor({2, 3, 0, 1, 6, 7, 4, 5}));
  }
  return out;
}

at::Tensor vertical_flip_boxes(const at::Tensor& boxes, BoxFormat format, int64_t height) {
  at::Tensor out = boxes.clone();
  const auto flip = [&](int64_t number) { column(out, number).sub_(height).neg_(); };
  switch (format) {
    case BoxFormat::kXyxy:
      flip(1);
      flip(3);
      return out.index_select(1, at::tensor({0, 3, 2, 1}));
    case BoxFormat::kXywh:
      column(out, 1).add_(column(boxes, 3));
      flip(1);
      return out;
    case BoxFormat::kCxcywh:
      flip(1);
      return out;
    case BoxFormat::kXywhr: {
      const at::Tensor turn = radians(column(boxes, 4));
      column(out, 1).sub_(column(boxes, 2).mul(turn.sin()));
      column(out, 0).add_(column(boxes, 2).mul(turn.cos()));
      flip(1);
      column(out, 4).neg_().add_(180);
      return out;
    }
    case BoxFormat::kCxcywhr:
      flip(1);
      column(out, 4).neg_().add_(180);
      return out;
    case BoxFormat::kXyxyxyxy:
      for (const int64_t y : {1, 3, 5, 7}) flip(y);
      return out.index_select(1, at::tensor({2, 3, 0, 1, 6, 7, 4, 5}));
  }
  return out;
}

at::Tensor move_boxes(const at::Tensor& boxes, BoxFormat format, double x, double y) {
  std::vector<double> by{x, y};
  const bool corners = format == BoxFormat::kXyxy || format == BoxFormat::kXyxyxyxy;
  while (static_cast<int64_t>(by.size()) < numbers_of(format))
    by.push_back(corners ? by[by.size() - 2] : 0);
  return boxes.add(at::tensor(by, boxes.scalar_type()));
}

at::Tensor resize_boxes(const at::Tensor& boxes,
                        BoxFormat format,
                        const image::Size& from,
                        const image::Size& to) {
  if (from.height == to.height && from.width == to.width) return boxes.clone();
  const at::Tensor ratios = size_ratios(from, to);
  if (!is_rotated(format)) return boxes.mul(ratios.tile({2}));
  const at::Tensor corners = convert_boxes(boxes, format, BoxFormat::kXyxyxyxy);
  return convert_boxes(straightened(corners.mul(ratios.tile({4}))), BoxFormat::kXyxyxyxy, format);
}

at::Tensor map_boxes(const at::Tensor& boxes, BoxFormat format, const PointMap& map) {
  if (is_rotated(format)) {
    const at::Tensor corners = convert_boxes(boxes, format, BoxFormat::kXyxyxyxy);
    const at::Tensor moved = map(corners.reshape({-1, 2})).reshape({-1, 8});
    return convert_boxes(straightened(moved), BoxFormat::kXyxyxyxy, format);
  }
  const at::Tensor upright = convert_boxes(boxes, format, BoxFormat::kXyxy);
  const at::Tensor corners = upright.index_select(1, at::tensor({0, 1, 2, 1, 2, 3, 0, 3}));
  const at::Tensor moved = map(corners.reshape({-1, 2})).reshape({-1, 4, 2});
  return convert_boxes(pairs(moved.amin(1), moved.amax(1)), BoxFormat::kXyxy, format);
}

at::Tensor clamp_boxes(const at::Tensor& boxes, BoxFormat format, const image::Size& size) {
  if (is_rotated(format)) return boxes.clone();
  at::Tensor corners = convert_boxes(boxes, format, BoxFormat::kXyxy);
  for (const int64_t x : {0, 2}) column(corners, x).clamp_(0, size.width);
  for (const int64_t y : {1, 3}) column(corners, y).clamp_(0, size.height);
  return convert_boxes(corners, BoxFormat::kXyxy, format);
}

at::Tensor sides_of(const at::Tensor& boxes, BoxFormat format) {
  const BoxFormat sized = is_rotated(format) ? BoxFormat::kXywhr : BoxFormat::kXywh;
  return convert_boxes(boxes, format, sized).narrow(1, 2, 2);
}

BoxAreas areas_of(const at::Tensor& boxes, BoxFormat format, const image::Size& size) {
  const auto product = [](const at::Tensor& sides) {
    return column(sides, 0).mul(column(sides, 1));
  };
  const at::Tensor whole = product(sides_of(boxes, format));
  if (is_rotated(format)) {
    const at::Tensor corners = convert_boxes(boxes, format, BoxFormat::kXyxyxyxy);
    return {whole, areas_inside(corners, size)};
  }
  return {whole, product(sides_of(clamp_boxes(boxes, format, size), format))};
}

}  // namespace muster::data::functional
