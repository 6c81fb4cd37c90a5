// From values back to points, and all values that a parameter can have.
#include <algorithm>
#include <limits>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/space/distribution.h"
#include "muster/tune/space/space_impl.h"

namespace muster::tune {
namespace {

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kMostValues = 64;    // of an image
constexpr size_t kMostPoints = 4096;  // that are looked at for it

/// Counts through all points of some dimensions, the first fastest.
class Points {
 public:
  /// Nothing if there are more than kMostPoints.
  static std::optional<Points> of(const std::vector<Dimension>& all,
                                  const std::vector<size_t>& dimensions) {
    Points points;
    size_t count = 1;
    for (const size_t d : dimensions) {
      auto numbers = numbers_of(all[d].distribution, kMostPoints);
      if (!numbers || (count *= numbers->size()) > kMostPoints) return std::nullopt;
      points.axes_.push_back({d, std::move(*numbers)});
    }
    return points;
  }

  /// Calls `look` with each; stops when it returns true.
  template <class Look>
  bool any(Point point, Look&& look) {
    std::vector<size_t> at(axes_.size());
    for (;;) {
      for (size_t i = 0; i < at.size(); ++i) point[axes_[i].dimension] = axes_[i].numbers[at[i]];
      if (look(point)) return true;
      size_t i = 0;
      while (i < at.size() && ++at[i] == axes_[i].numbers.size()) at[i++] = 0;
      if (i == at.size()) return false;
    }
  }

 private:
  struct Axis {
    size_t dimension;
    std::vector<double> numbers;
  };
  std::vector<Axis> axes_;
};

/// `parameter` and all that its value is computed from.
std::vector<bool> needed_for(const Space::Impl& space, size_t parameter) {
  std::vector<bool> needed(space.parameters.size());
  std::vector<size_t> open = {parameter};
  while (!open.empty()) {
    const size_t p = open.back();
    open.pop_back();
    if (needed[p]) continue;
    needed[p] = true;
    if (!space.compiled[p].value) continue;
    for (const size_t need : space.compiled[p].value->parameters) open.push_back(need);
  }
  return needed;
}

/// The value of `parameter` at `point`, as if everything applied.
Value unconditional_value(const Space::Impl& space,
                          size_t parameter,
                          const std::vector<bool>& needed,
                          const Point& point) {
  Values values(space.parameters.size());
  for (const size_t p : space.order) {
    if (needed[p]) values[p] = space.value_of_parameter(p, point, values);
  }
  return values[parameter];
}

std::vector<size_t> dimensions_of(const Space::Impl& space, const std::vector<bool>& parameters) {
  std::vector<size_t> out;
  for (size_t d = 0; d < space.dimensions.size(); ++d) {
    if (parameters[space.dimensions[d].parameter]) out.push_back(d);
  }
  return out;
}

bool add_once(std::vector<Value>& values, const Value& value) {
  if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  return values.size() > kMostValues;
}

/// Finds the point that has given values.
class Inverse {
 public:
  Inverse(const Space::Impl& space, const std::map<std::string, Value>& given)
      : space_(space), point_(space.dimensions.size(), kNoValue), known_(space.parameters.size()) {
    for (const auto& [name, value] : given) {
      if (!value.is_none()) put(name, value);
    }
    for (size_t p = 0; p < space_.parameters.size(); ++p) {
      if (space_.parameters[p].domain.kind() == Domain::Kind::kConstant)
        known_[p] = space_.parameters[p].domain.constant();
    }
  }

  Point find() {
    for (const size_t p : computed_) invert(p);
    return std::move(point_);
  }

 private:
  void put(const std::string& name, const Value& value) {
    if (const auto found = space_.by_name.find(name); found != space_.by_name.end())
      return put_parameter(found->second, value);
    for (size_t d = 0; d < space_.dimensions.size(); ++d) {
      if (space_.dimensions[d].name == name) return put_dimension(d, value);
    }
    std::vector<std::string> known;
    for (const auto& [one, index] : space_.by_name) known.push_back(one);
    refuse_parameter(name, "the space has no such parameter", "", suggestion(name, known));
  }

  void put_parameter(size_t p, const Value& value) {
    const auto& [name, domain, when] = space_.parameters[p];
    known_[p] = value;
    switch (domain.kind()) {
      case Domain::Kind::kConstant:
        if (!same_value(domain.constant(), value))
          refuse_parameter(
              name, concat("it is always ", literal(domain.constant())), literal(value));
        return;
      case Domain::Kind::kDistribution:
      case Domain::Kind::kGrid:
        return put_dimension(space_.compiled[p].first_dimension, value);
      case Domain::Kind::kExpression:
        computed_.push_back(p);
        return;
      case Domain::Kind::kFunction:
        refuse_parameter(name, "the result of a C++ function cannot be given", literal(value));
    }
  }

  void put_dimension(size_t d, const Value& value) {
    const Dimension& dimension = space_.dimensions[d];
    const auto number = number_of(dimension.distribution, value);
    if (!number)
      refuse_parameter(dimension.name,
                       concat("the value is none of ",
                              distribution_text(dimension.distribution,
                                                dimension.grid ? "grid_search" : "choice")),
                       literal(value));
    point_[d] = *number;
  }

  /// Finds the draws of a computed parameter by trying them all.
  void invert(size_t p) {
    const auto& [name, domain, when] = space_.parameters[p];
    const Compiled& own = space_.compiled[p];
    for (const size_t need : own.value->parameters) {
      if (known_[need].is_none())
        refuse_parameter(name,
                         concat("it is computed from ", space_.parameters[need].name),
                         literal(known_[p]),
                         concat("give ", space_.parameters[need].name, " too"));
    }
    std::vector<size_t> free;
    for (size_t d = own.first_dimension; d < own.first_dimension + own.dimension_count; ++d) {
      if (point_[d] != point_[d]) free.push_back(d);
    }
    auto points = Points::of(space_.dimensions, free);
    if (!points) {
      refuse_parameter(name,
                       concat(domain.text(), " has too many draws to find the one with this value"),
                       literal(known_[p]),
                       concat("give the draw itself: \"", space_.dimensions[free[0]].name, '"'));
    }
    const bool found = points->any(point_, [&](const Point& point) {
      if (!has_value(p, point)) return false;
      point_ = point;
      return true;
    });
    if (!found)
      refuse_parameter(name, concat("the value is none of ", domain.text()), literal(known_[p]));
  }

  bool has_value(size_t p, const Point& point) const {
    try {
      return same_value(space_.value_of_parameter(p, point, known_), known_[p]);
    } catch (const Error&) {  // no value at this point
      return false;
    }
  }

  const Space::Impl& space_;
  Point point_;
  Values known_;  // nothing: not given
  std::vector<size_t> computed_;
};

}  // namespace

std::optional<std::vector<Value>> Space::image_of(size_t parameter) const {
  if (parameter >= impl_->parameters.size()) {
    throw usage_error({.refused = concat("parameter number ", parameter),
                       .rule = concat("the space has ", impl_->parameters.size())});
  }
  if (impl_->compiled[parameter].opaque) return std::nullopt;
  const std::vector<bool> needed = needed_for(*impl_, parameter);
  auto points = Points::of(impl_->dimensions, dimensions_of(*impl_, needed));
  if (!points) return std::nullopt;
  std::vector<Value> image;
  const bool too_many =
      points->any(Point(impl_->dimensions.size(), kNoValue), [&](const Point& point) {
        try {
          const Value value = unconditional_value(*impl_, parameter, needed, point);
          return !value.is_none() && add_once(image, value);
        } catch (const Error&) {  // no value at this point
          return false;
        }
      });
  return too_many ? std::nullopt : std::optional(std::move(image));
}

Point Space::point_of(const std::map<std::string, Value>& values) const {
  return Inverse(*impl_, values).find();
}

}  // namespace muster::tune
