// Chains of transforms by their names.
#include <algorithm>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/transform/compose.h"
#include "muster/data/transform/transformed.h"
#include "muster/formats/transform_chain.h"

namespace muster::data {
namespace {

constexpr double kWeightWithoutP = 0.5;  // albumentations' default of p

enum class OwnP { kNone, kProbability, kOther };

/// What the transform's own parameter `p` is.
OwnP own_p_of(const TransformEntry& entry) {
  const auto found = std::find_if(entry.params.begin(), entry.params.end(), [](const Param& param) {
    return param.name == "p";
  });
  if (found == entry.params.end()) return OwnP::kNone;
  return found->type == "float" ? OwnP::kProbability : OwnP::kOther;
}

double parsed_p(const TransformEntry& entry, const std::string& text) {
  const auto value = to_double(text);
  if (value && *value >= 0 && *value <= 1) return *value;
  throw usage_error({.refused = concat("transform ", entry.name, " parameter \"p\""),
                     .rule = "it is in 0 … 1",
                     .value = text});
}

std::vector<InnerStep> named_inner_steps(const std::vector<formats::ChainStep>& steps);

/// The step itself, with what `params` hold.
TransformMaker bare_maker(const TransformEntry& entry,
                          ParamValues params,
                          const std::vector<formats::ChainStep>& steps) {
  if (entry.compose == nullptr) {
    if (!steps.empty()) {
      throw usage_error({.refused = concat("steps in ", entry.name, "(…)"),
                         .rule = "it takes none",
                         .value = steps[0].name,
                         .hint = "one_of, some_of, sequential and random_… take steps"});
    }
    return [&entry, params = std::move(params)](const DataSpec& before) {
      return entry.make(params, before);
    };
  }
  if (steps.empty()) {
    throw usage_error(
        {.refused = concat("transform ", entry.name),
         .rule = concat("steps stand in it: ", entry.name, "(grayscale|random_invert)")});
  }
  return [&entry, params = std::move(params), inside = named_inner_steps(steps)](
             const DataSpec& before) { return entry.compose(params, inside, before); };
}

InnerStep named_step(const formats::ChainStep& step) {
  const TransformEntry& entry = transforms().at(step.name);
  const OwnP own = own_p_of(entry);
  ParamValues params = step.params;
  const auto written = params.find("p");
  std::optional<double> p;
  if (written != params.end() && own != OwnP::kOther) p = parsed_p(entry, written->second);
  InnerStep named{.weight = p.value_or(kWeightWithoutP)};
  if (own == OwnP::kNone) params.erase("p");
  named.make = bare_maker(entry, params, step.inside);
  named.make_surely = named.make;
  if (own == OwnP::kProbability) {
    params["p"] = "1";
    named.make_surely = bare_maker(entry, params, step.inside);
  } else if (own == OwnP::kNone && p) {
    named.make = done_with_probability(*p, step.name, named.make);
  }
  return named;
}

std::vector<InnerStep> named_inner_steps(const std::vector<formats::ChainStep>& steps) {
  std::vector<InnerStep> inside;
  for (const formats::ChainStep& step : steps) inside.push_back(named_step(step));
  return inside;
}

}  // namespace

std::vector<TransformMaker> parse_transforms(std::string_view chain) {
  return makers_of(named_inner_steps(formats::parse_transform_chain(chain)));
}

}  // namespace muster::data
