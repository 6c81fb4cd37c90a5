#include "muster/tune/space/space.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/error.h"
#include "muster/base/philox.h"
#include "muster/base/text.h"
#include "muster/tune/space/distribution.h"
#include "muster/tune/space/space_impl.h"

namespace muster::tune {
namespace {

constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

std::vector<Parameter> unconditional(
    std::initializer_list<std::pair<std::string, Domain>> parameters) {
  std::vector<Parameter> out;
  for (const auto& [name, domain] : parameters) out.push_back({name, domain, ""});
  return out;
}

std::vector<Value> named(const Bound& bound, const Values& values) {
  std::vector<Value> out;
  for (const size_t parameter : bound.parameters) out.push_back(values[parameter]);
  return out;
}

/// "a = 3, x#0 = 0.5", for errors.
std::string shown(const Bound& bound,
                  std::span<const Value> names,
                  std::string_view parameter,
                  std::span<const Value> draws) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < names.size(); ++i)
    parts.push_back(concat(bound.expression.names[i], " = ", literal(names[i])));
  for (size_t i = 0; i < draws.size(); ++i)
    parts.push_back(concat(parameter, '#', i, " = ", literal(draws[i])));
  return join(parts, ", ");
}

Value evaluate_bound(const Bound& bound,
                     std::string_view parameter,
                     std::string_view text,
                     const Values& values,
                     std::span<const Value> draws) {
  const std::vector<Value> names = named(bound, values);
  try {
    return evaluate(bound.expression, names, draws);
  } catch (const Error& error) {
    const std::string got = error.text().value.empty() ? "" : " (" + error.text().value + ')';
    refuse_parameter(parameter,
                     concat('"', text, "\" has no value: ", error.text().rule, got),
                     shown(bound, names, parameter, draws));
  }
}

void check_size(const Point& point, size_t dimensions) {
  if (point.size() == dimensions) return;
  throw usage_error({.refused = concat("a point of ", point.size(), " numbers"),
                     .rule = concat("the space has ", dimensions, " dimensions")});
}

}  // namespace

// ---- Impl ----

bool Space::Impl::applies(size_t p, const Values& values) const {
  if (!compiled[p].when) return true;
  const Value holds =
      evaluate_bound(*compiled[p].when, parameters[p].name, parameters[p].when, values, {});
  if (holds.is_none()) return false;
  if (!holds.is_bool())
    refuse_parameter(parameters[p].name,
                     concat("its condition \"", parameters[p].when, "\" is true or false"),
                     literal(holds));
  return holds.as_bool();
}

std::vector<Value> Space::Impl::draws_at(size_t p, const Point& point) const {
  std::vector<Value> out;
  for (size_t i = 0; i < compiled[p].dimension_count; ++i) {
    const size_t d = compiled[p].first_dimension + i;
    try {
      out.push_back(value_of(dimensions[d].distribution, point[d]));
    } catch (const Error& error) {
      refuse_parameter(dimensions[d].name, error.text().rule, error.text().value);
    }
  }
  return out;
}

Value Space::Impl::value_of_parameter(size_t p, const Point& point, const Values& values) const {
  const auto& [name, domain, when] = parameters[p];
  if (domain.kind() == Domain::Kind::kConstant) return domain.constant();
  const std::vector<Value> draws = draws_at(p, point);
  if (compiled[p].value)
    return evaluate_bound(*compiled[p].value, name, domain.expression(), values, draws);
  if (domain.kind() != Domain::Kind::kFunction) return draws[0];
  Resolved resolved;
  for (const size_t before : order) {
    if (before == p) break;
    if (!values[before].is_none()) resolved.emplace(parameters[before].name, values[before]);
  }
  return domain.function()(resolved);
}

Values Space::Impl::values_at(const Point& point, const std::vector<bool>& wanted) const {
  Values values(parameters.size());
  for (const size_t p : order) {
    if ((wanted.empty() || wanted[p]) && applies(p, values))
      values[p] = value_of_parameter(p, point, values);
  }
  return values;
}

double Space::Impl::draw_dimension(size_t dimension,
                                   uint64_t seed,
                                   int64_t number,
                                   uint64_t round) const {
  const auto low = [](uint64_t word) { return static_cast<uint32_t>(word); };
  const auto high = [](uint64_t word) { return static_cast<uint32_t>(word >> 32); };
  const auto trial = static_cast<uint64_t>(number);
  const auto bits = philox4x32_10({low(trial), high(trial), tags[dimension], low(round)},
                                  {low(seed), high(seed) ^ high(round)});
  return tune::draw(dimensions[dimension].distribution, bits);
}

// ---- Space ----

Space::Space() : Space(std::vector<Parameter>()) {}

Space::Space(std::initializer_list<std::pair<std::string, Domain>> parameters)
    : Space(unconditional(parameters)) {}

Space::Space(std::vector<Parameter> parameters)
    : impl_(std::make_shared<const Impl>(std::move(parameters))) {}

std::span<const Parameter> Space::parameters() const { return impl_->parameters; }
std::span<const Dimension> Space::dimensions() const { return impl_->dimensions; }

std::optional<size_t> Space::index_of(std::string_view parameter) const {
  const auto found = impl_->by_name.find(parameter);
  return found == impl_->by_name.end() ? std::nullopt : std::optional(found->second);
}

Values Space::resolve(const Point& point) const {
  check_size(point, impl_->dimensions.size());
  return impl_->values_at(point, {});
}

std::optional<std::string> Space::outside(const Point& point) const {
  check_size(point, impl_->dimensions.size());
  for (size_t d = 0; d < point.size(); ++d) {
    if (std::isnan(point[d])) continue;
    const auto& [name, distribution, parameter, grid] = impl_->dimensions[d];
    const auto* categories = std::get_if<CategoricalDistribution>(&distribution);
    const bool is_inside = categories == nullptr
                               ? number_of(distribution, point[d]).has_value()
                               : point[d] >= 0 && std::trunc(point[d]) == point[d] &&
                                     point[d] < static_cast<double>(categories->choices.size());
    if (!is_inside)
      return concat(
          name, " = ", shortest(point[d]), " is none of ", distribution_text(distribution));
  }
  return std::nullopt;
}

Point Space::with_conditions(Point point) const {
  check_size(point, impl_->dimensions.size());
  // Conditions depend on no function, so none is called.
  const Values values = impl_->values_at(point, impl_->deciding);
  for (size_t d = 0; d < point.size(); ++d) {
    if (!impl_->applies(impl_->dimensions[d].parameter, values)) point[d] = kAbsent;
    point[d] += 0.0;  // a step below 0 that is rounded to it is no -0.0
  }
  return point;
}

std::vector<size_t> Space::deciding_dimensions() const {
  std::vector<size_t> out;
  for (size_t d = 0; d < impl_->dimensions.size(); ++d) {
    if (impl_->deciding[impl_->dimensions[d].parameter]) out.push_back(d);
  }
  return out;
}

Point Space::draw(Point point, uint64_t seed, int64_t number) const {
  if (point.empty()) point.assign(impl_->dimensions.size(), kAbsent);
  check_size(point, impl_->dimensions.size());
  for (size_t d = 0; d < point.size(); ++d) {
    if (std::isnan(point[d]) && !impl_->dimensions[d].grid)
      point[d] = draw_dimension(d, seed, number);
  }
  return point;
}

double Space::draw_dimension(size_t dimension,
                             uint64_t seed,
                             int64_t number,
                             uint64_t round) const {
  return impl_->draw_dimension(dimension, seed, number, round);
}

std::vector<std::string> Space::opaque() const {
  std::vector<std::string> names;
  for (size_t p = 0; p < impl_->parameters.size(); ++p) {
    if (impl_->compiled[p].opaque) names.push_back(impl_->parameters[p].name);
  }
  return names;
}

std::vector<size_t> Space::grid_dimensions() const {
  std::vector<size_t> out;
  for (size_t d = 0; d < impl_->dimensions.size(); ++d) {
    if (impl_->dimensions[d].grid) out.push_back(d);
  }
  std::sort(out.begin(), out.end(), [&](size_t a, size_t b) {
    return split(impl_->dimensions[a].name, '.') < split(impl_->dimensions[b].name, '.');
  });
  return out;
}

}  // namespace muster::tune
