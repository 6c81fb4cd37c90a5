#include "muster/data/transform/compose.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/dtype_name.h"

namespace muster::data {
namespace {

using InnerSteps = std::vector<std::shared_ptr<const Transform>>;
/// Which steps a sample goes through, in this order.
using Choice = std::function<std::vector<int64_t>(Draws& draws)>;

class Composed final : public Transform {
 public:
  Composed(DataSpec spec, InnerSteps steps, Choice choice)
      : spec_(std::move(spec)), steps_(std::move(steps)), choice_(std::move(choice)) {}

  const DataSpec& spec() const override { return spec_; }
  bool chooses() const override { return true; }
  void apply(Sample& sample, Rng& rng) const override {
    RngDraws draws(rng);
    for (const int64_t step : choice_(draws)) steps_[static_cast<size_t>(step)]->apply(sample, rng);
  }
  void apply(Sample& sample, Draws& draws) const override {
    for (const int64_t step : choice_(draws))
      steps_[static_cast<size_t>(step)]->apply(sample, draws);
  }

 private:
  DataSpec spec_;
  InnerSteps steps_;
  Choice choice_;
};

std::vector<int64_t> all_in_order(size_t count) {
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

void check_steps(std::string_view what, const std::vector<TransformMaker>& steps) {
  if (!steps.empty()) return;
  throw usage_error({.refused = concat("transform ", what), .rule = "it has at least one step"});
}

void check_share(std::string_view what, double p) {
  if (p >= 0 && p <= 1) return;
  throw usage_error({.refused = concat("transform ", what, " parameter \"p\""),
                     .rule = "it is in 0 … 1",
                     .value = shortest(p)});
}

std::vector<double> checked_weights(std::string_view what,
                                    std::vector<double> weights,
                                    size_t steps) {
  if (weights.empty()) weights.assign(steps, 1);
  const auto refuse = [&](std::string rule, std::string value) {
    throw usage_error({.refused = concat("weights of transform ", what),
                       .rule = std::move(rule),
                       .value = std::move(value)});
  };
  if (weights.size() != steps)
    refuse(concat("one for each of ", steps, " steps"), concat(weights.size()));
  for (const double weight : weights) {
    if (!(weight >= 0)) refuse("each is at least 0", shortest(weight));
  }
  if (std::accumulate(weights.begin(), weights.end(), 0.0) <= 0) refuse("one is above 0", "all 0");
  return weights;
}

std::string form_of(const DataSpec& spec) {
  return concat(tensor::dtype_name(spec.dtype), " of ", spec.channels(), " channels");
}

/// What samples look like that are like one of the two.
DataSpec either(std::string_view what, DataSpec one, const DataSpec& other) {
  const bool alike = one.dtype == other.dtype && one.what() == other.what() &&
                     one.sample_shape.size() == other.sample_shape.size() &&
                     (!one.is_image() || one.channels() == other.channels());
  const bool alike_numbers =
      one.mean == other.mean && one.standard_deviation == other.standard_deviation;
  if (!alike || !alike_numbers) {
    throw usage_error(
        {.refused = concat("transform ", what, " of ", one.name),
         .rule = "samples have one form, whichever of its steps they go through",
         .value = alike ? "two means or deviations" : concat(form_of(one), "; ", form_of(other)),
         .hint = "let the step that changes dtype or channels stand before or behind it"});
  }
  if (!one.is_image()) return one;
  for (size_t side = 1; side < one.sample_shape.size(); ++side) {
    if (one.sample_shape[side] != other.sample_shape[side]) one.sample_shape[side] = 0;
  }
  return one;
}

InnerSteps made_for(const std::vector<TransformMaker>& makers, const DataSpec& before) {
  InnerSteps steps;
  for (const TransformMaker& maker : makers) steps.push_back(maker(before));
  return steps;
}

DataSpec any_of(std::string_view what, DataSpec spec, const InnerSteps& steps) {
  for (const auto& step : steps) spec = either(what, std::move(spec), step->spec());
  return spec;
}

/// A step that is one of `makers`, or none.
std::shared_ptr<const Transform> one_step_of(std::string_view what,
                                             const std::vector<TransformMaker>& makers,
                                             bool may_be_none,
                                             Choice choice,
                                             const DataSpec& before) {
  InnerSteps steps = made_for(makers, before);
  DataSpec after = any_of(what, may_be_none ? before : steps[0]->spec(), steps);
  return std::make_shared<Composed>(std::move(after), std::move(steps), std::move(choice));
}

/// Any of `makers` one after the other: each sees what any other leaves.
std::shared_ptr<const Transform> steps_in_any_order(std::string_view what,
                                                    const std::vector<TransformMaker>& makers,
                                                    Choice choice,
                                                    const DataSpec& before) {
  DataSpec seen = any_of(what, before, made_for(makers, before));
  InnerSteps steps = made_for(makers, seen);
  DataSpec after = any_of(what, seen, steps);
  return std::make_shared<Composed>(std::move(after), std::move(steps), std::move(choice));
}

Choice one_by_weight(std::vector<double> weights, double p) {
  return [weights = std::move(weights), p](Draws& draws) -> std::vector<int64_t> {
    if (p < 1 && !draws.is_below(p)) return {};
    return {draws.weighted(weights)};
  };
}

TransformMaker choice_maker(std::string what,
                            std::vector<TransformMaker> steps,
                            std::vector<double> weights,
                            double p) {
  check_steps(what, steps);
  check_share(what, p);
  weights = checked_weights(what, std::move(weights), steps.size());
  return [=](const DataSpec& before) {
    return one_step_of(what, steps, p < 1, one_by_weight(weights, p), before);
  };
}

/// A number is drawn for `p`, and for 1 only where that is said.
TransformMaker all_or_none(std::string what,
                           std::vector<TransformMaker> steps,
                           double p,
                           bool draws_at_one) {
  check_steps(what, steps);
  check_share(what, p);
  return [=](const DataSpec& before) -> std::shared_ptr<const Transform> {
    InnerSteps chain;
    for (const TransformMaker& maker : steps)
      chain.push_back(maker(chain.empty() ? before : chain.back()->spec()));
    DataSpec after = chain.back()->spec();
    if (p < 1) after = either(what, before, after);
    const size_t count = chain.size();
    return std::make_shared<Composed>(
        std::move(after), std::move(chain), [p, draws_at_one, count](Draws& draws) {
          const bool is_done = (p == 1 && !draws_at_one) || draws.is_below(p);
          return is_done ? all_in_order(count) : std::vector<int64_t>{};
        });
  };
}

std::vector<int64_t> drawn_steps(int64_t count, const SomeOfOptions& options, Draws& draws) {
  std::vector<int64_t> chosen;
  if (options.replace) {
    for (int64_t i = 0; i < options.n; ++i) chosen.push_back(draws.integer(0, count));
  } else {
    chosen = draws.permutation(count);
    chosen.resize(static_cast<size_t>(options.n));
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace

TransformMaker random_apply(std::vector<TransformMaker> steps, double p) {
  return all_or_none("random_apply", std::move(steps), p, /*draws_at_one=*/true);
}

TransformMaker done_with_probability(double p, std::string name, TransformMaker step) {
  return all_or_none(std::move(name), {std::move(step)}, p, /*draws_at_one=*/true);
}

TransformMaker sequential(std::vector<TransformMaker> steps, double p) {
  return all_or_none("sequential", std::move(steps), p, /*draws_at_one=*/false);
}

TransformMaker random_choice(std::vector<TransformMaker> steps, std::vector<double> weights) {
  return choice_maker("random_choice", std::move(steps), std::move(weights), 1);
}

TransformMaker one_of(std::vector<TransformMaker> steps, const OneOfOptions& options) {
  return choice_maker("one_of", std::move(steps), options.weights, options.p);
}

TransformMaker random_order(std::vector<TransformMaker> steps) {
  check_steps("random_order", steps);
  const auto count = static_cast<int64_t>(steps.size());
  return [steps = std::move(steps), count](const DataSpec& before) {
    return steps_in_any_order(
        "random_order", steps, [count](Draws& draws) { return draws.permutation(count); }, before);
  };
}

TransformMaker some_of(std::vector<TransformMaker> steps, const SomeOfOptions& options) {
  check_steps("some_of", steps);
  check_share("some_of", options.p);
  const auto count = static_cast<int64_t>(steps.size());
  constexpr int64_t kMost = 1000;
  const int64_t most = options.replace ? kMost : count;
  if (options.n < 1 || options.n > most) {
    throw usage_error(
        {.refused = "transform some_of parameter \"n\"",
         .rule = options.replace ? concat("it is in 1 … ", kMost)
                                 : concat("it is in 1 … ", count, ", its steps"),
         .value = concat(options.n),
         .hint = options.replace || options.n < 1 ? "" : "replace=true takes a step again"});
  }
  return [steps = std::move(steps), options, count](const DataSpec& before) {
    return steps_in_any_order(
        "some_of",
        steps,
        [options, count](Draws& draws) -> std::vector<int64_t> {
          if (options.p < 1 && !draws.is_below(options.p)) return {};
          return drawn_steps(count, options, draws);
        },
        before);
  };
}

std::vector<TransformMaker> makers_of(const std::vector<InnerStep>& inside) {
  std::vector<TransformMaker> makers;
  for (const InnerStep& step : inside) makers.push_back(step.make);
  return makers;
}

std::vector<TransformMaker> sure_makers_of(const std::vector<InnerStep>& inside) {
  std::vector<TransformMaker> makers;
  for (const InnerStep& step : inside) makers.push_back(step.make_surely);
  return makers;
}

}  // namespace muster::data
