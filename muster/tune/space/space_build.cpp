// Declarations into a checked space: everything that can be wrong with one is found here.
#include <algorithm>
#include <cmath>
#include <set>
#include <variant>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/space/distribution.h"
#include "muster/tune/space/space_impl.h"

namespace muster::tune {
namespace {

/// Nothing if the name is fine.
std::string fault_of(std::string_view name) {
  for (const std::string& part : split(name, '.')) {
    if (part.empty()) return "a name, and each part of it between dots, has a letter";
  }
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || byte == 0x7f ||
        std::string_view("{}[]()'\"=,#@\\").find(c) != std::string_view::npos)
      return "a name has no blanks, quotes, brackets, or any of = , # @ \\";
  }
  return "";
}

/// FNV-1a, for dimension names: a draw does not depend on which other parameters there are.
uint32_t hash(std::string_view text) {
  uint32_t out = 2166136261U;
  for (const char c : text) out = (out ^ static_cast<unsigned char>(c)) * 16777619U;
  return out;
}

/// The cycle that is met from `at` on, as "a -> b -> a"; empty if there is none.
class CycleSearch {
 public:
  explicit CycleSearch(const Space::Impl& space) : space_(space), state_(space.parameters.size()) {}

  std::string from(size_t at) {
    if (state_[at] == kDone) return "";
    path_.push_back(at);
    if (state_[at] == kOpen) return text();
    state_[at] = kOpen;
    for (const size_t next : space_.compiled[at].needs()) {
      if (std::string cycle = from(next); !cycle.empty()) return cycle;
    }
    state_[at] = kDone;
    path_.pop_back();
    return "";
  }

 private:
  enum State { kNew, kOpen, kDone };

  std::string text() const {
    std::vector<std::string> names;
    const auto begin = std::find(path_.begin(), path_.end(), path_.back());
    for (auto at = begin; at != path_.end(); ++at) names.push_back(space_.parameters[*at].name);
    return join(names, " -> ");
  }

  const Space::Impl& space_;
  std::vector<State> state_;
  std::vector<size_t> path_;
};

}  // namespace

void refuse_parameter(std::string_view name,
                      std::string rule,
                      std::string value,
                      std::string hint) {
  throw usage_error({.refused = concat("parameter \"", name, '"'),
                     .rule = std::move(rule),
                     .value = std::move(value),
                     .hint = std::move(hint)});
}

std::vector<size_t> Compiled::needs() const {
  std::vector<size_t> out;
  for (const auto* bound : {&value, &when}) {
    if (*bound) out.insert(out.end(), (*bound)->parameters.begin(), (*bound)->parameters.end());
  }
  return out;
}

void Space::Impl::find_deciding() {
  deciding.assign(parameters.size(), false);
  std::vector<size_t> open;
  for (const Compiled& own : compiled) {
    if (own.when) open.insert(open.end(), own.when->parameters.begin(), own.when->parameters.end());
  }
  while (!open.empty()) {
    const size_t p = open.back();
    open.pop_back();
    if (deciding[p]) continue;
    deciding[p] = true;
    const auto needs = compiled[p].needs();
    open.insert(open.end(), needs.begin(), needs.end());
  }
}

Space::Impl::Impl(std::vector<Parameter> given) : parameters(std::move(given)) {
  check_names();
  check_constants();
  compile();
  put_in_order();
  find_opaque();
  tag_dimensions();
  find_deciding();
  try_out();
}

void Space::Impl::check_names() {
  for (size_t p = 0; p < parameters.size(); ++p) {
    const std::string& name = parameters[p].name;
    if (std::string fault = fault_of(name); !fault.empty()) refuse_parameter(name, fault);
    if (!by_name.emplace(name, p).second) refuse_parameter(name, "each parameter is given once");
  }
  for (const auto& [name, p] : by_name) {
    const auto inner = by_name.upper_bound(name + '.');
    if (inner != by_name.end() && inner->first.starts_with(name + '.'))
      refuse_parameter(name, "a parameter is a value or a group of others, not both", inner->first);
  }
}

void Space::Impl::check_constants() const {
  for (const Parameter& parameter : parameters) {
    if (parameter.domain.kind() != Domain::Kind::kConstant) continue;
    const Value& value = parameter.domain.constant();
    if (value.is_none() || (value.is_double() && !std::isfinite(value.as_double())))
      refuse_parameter(parameter.name,
                       "a constant is true, false, a text or a finite number",
                       value.is_none() ? "nothing" : value_text(value));
  }
}

void Space::Impl::compile() {
  compiled.resize(parameters.size());
  for (size_t p = 0; p < parameters.size(); ++p) {
    const auto& [name, domain, when] = parameters[p];
    const std::string where = concat("parameter \"", name, '"');
    if (domain.kind() == Domain::Kind::kExpression)
      compiled[p].value = bind(parse_expression(domain.expression(), where), p, "sample_from");
    if (!trim(when).empty()) {
      compiled[p].when = bind(parse_condition(when, where + ", condition"), p, "condition");
      check_choices(p, *compiled[p].when, compiled[p].when->expression.root);
    }
    add_dimensions(p);
  }
}

/// "opt == 'sdg'" never holds if that is none of opt's choices: a slip of the hand.
void Space::Impl::check_choices(size_t p, const Bound& bound, const Node& node) const {
  for (const Node& child : node.children) check_choices(p, bound, child);
  using Op = Node::Op;
  if (node.op != Op::kEqual && node.op != Op::kNotEqual && node.op != Op::kIn) return;
  const auto name = std::ranges::find(node.children, Op::kName, &Node::op);
  if (name == node.children.end() || (node.op == Op::kIn && name != node.children.begin())) return;
  const Parameter& named = parameters[bound.parameters[name->index]];
  const bool has_choices = named.domain.kind() == Domain::Kind::kDistribution ||
                           named.domain.kind() == Domain::Kind::kGrid;
  if (!has_choices) return;
  const auto* list = std::get_if<CategoricalDistribution>(&named.domain.distribution());
  if (list == nullptr) return;
  for (const Node& child : node.children) {
    if (child.op != Op::kConstant || number_of(*list, child.value)) continue;
    std::vector<std::string> known;
    for (const Value& choice : list->choices) known.push_back(literal(choice));
    refuse_parameter(parameters[p].name,
                     concat("its condition compares \"", named.name, "\" with one of its choices"),
                     literal(child.value),
                     suggestion(literal(child.value), known));
  }
}

Bound Space::Impl::bind(Expression expression, size_t parameter, std::string_view part) const {
  Bound bound{std::move(expression), {}};
  for (const std::string& name : bound.expression.names) {
    if (const auto found = by_name.find(name); found != by_name.end()) {
      bound.parameters.push_back(found->second);
      continue;
    }
    std::vector<std::string> known;
    for (const auto& [one, index] : by_name) {
      if (index != parameter) known.push_back(one);
    }
    refuse_parameter(parameters[parameter].name,
                     concat("its ", part, " names \"", name, "\", which is no parameter"),
                     "",
                     known.empty() ? "a text is written in quotes" : suggestion(name, known));
  }
  return bound;
}

void Space::Impl::add_dimensions(size_t p) {
  const auto& [name, domain, when] = parameters[p];
  compiled[p].first_dimension = dimensions.size();
  const auto kind = domain.kind();
  if (kind == Domain::Kind::kDistribution || kind == Domain::Kind::kGrid) {
    dimensions.push_back({.name = name,
                          .distribution = domain.distribution(),
                          .parameter = p,
                          .grid = kind == Domain::Kind::kGrid});
  } else if (compiled[p].value) {
    const auto& draws = compiled[p].value->expression.draws;
    for (size_t i = 0; i < draws.size(); ++i)
      dimensions.push_back(
          {.name = concat(name, '#', i), .distribution = draws[i], .parameter = p});
  }
  compiled[p].dimension_count = dimensions.size() - compiled[p].first_dimension;
}

/// What is named before what names it, otherwise as declared; C++ functions last, so that they see
/// as much as there is.
void Space::Impl::put_in_order() {
  CycleSearch search(*this);
  for (size_t p = 0; p < parameters.size(); ++p) {
    if (const std::string cycle = search.from(p); !cycle.empty())
      refuse_parameter(parameters[p].name, "what a parameter is computed from has an end", cycle);
  }
  std::vector<bool> placed(parameters.size());
  const auto next = [&](bool functions) {
    for (size_t p = 0; p < parameters.size(); ++p) {
      const auto needs = compiled[p].needs();
      if (!placed[p] && (parameters[p].domain.kind() == Domain::Kind::kFunction) == functions &&
          std::all_of(needs.begin(), needs.end(), [&](size_t need) { return placed[need]; }))
        return p;
    }
    return parameters.size();
  };
  while (order.size() < parameters.size()) {
    size_t p = next(false);
    if (p == parameters.size()) p = next(true);
    placed[p] = true;
    order.push_back(p);
  }
}

void Space::Impl::find_opaque() {
  for (const size_t p : order) {
    Compiled& own = compiled[p];
    own.opaque = parameters[p].domain.kind() == Domain::Kind::kFunction;
    if (own.value) {
      for (const size_t need : own.value->parameters) own.opaque |= compiled[need].opaque;
    }
    if (!own.when) continue;
    for (const size_t need : own.when->parameters) {
      if (compiled[need].opaque)
        refuse_parameter(
            parameters[p].name, "a condition depends on no C++ function", parameters[need].name);
    }
  }
}

void Space::Impl::tag_dimensions() {
  std::set<uint32_t> taken;
  for (const Dimension& dimension : dimensions) {
    uint32_t tag = hash(dimension.name);
    while (!taken.insert(tag).second) ++tag;
    tags.push_back(tag);
  }
}

/// An expression that has no value at some of its ends or at one of 64 random points is refused
/// before anything runs.
void Space::Impl::try_out() const {
  std::vector<bool> wanted;
  for (const Compiled& own : compiled) wanted.push_back(!own.opaque);
  const auto is_plain = [](const Compiled& own) { return !own.value && !own.when; };
  if (std::all_of(compiled.begin(), compiled.end(), is_plain)) return;
  Point random(dimensions.size());
  for (int64_t number = 0; number < 64; ++number) {
    for (size_t d = 0; d < random.size(); ++d) random[d] = draw_dimension(d, 0, number, 0);
    values_at(random, wanted);
  }
  for (size_t d = 0; d < random.size(); ++d) {
    const double drawn = random[d];
    for (const double end : ends_of(dimensions[d].distribution)) {
      random[d] = end;
      values_at(random, wanted);
    }
    random[d] = drawn;
  }
}

}  // namespace muster::tune
