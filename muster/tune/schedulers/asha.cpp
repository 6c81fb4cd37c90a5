// Asynchronous successive halving in two types.
//
// `stopping` is Ray Tune's rule (ray 2.60, AsyncHyperBandScheduler): a trial that reaches a rung
// goes on at once unless it is worse than the quantile 1 - 1 / eta of those that came before it.
// `promotion` is the paper's (Li et al. 2020, Algorithm 2): trials pause at each rung, and the best
// floor(n / eta) of the n that came are promoted, from high rungs first. The paper's top rung is R;
// here no trial pauses at max_t or above, so that with an R that is no rung the best still get
// there.
//
// Where Ray is left on purpose, unless `ray_compat`:
// - Rungs come from multiplication, not logarithms: Note in rung_ladder.h.
// - A score that is not finite is the worst there is: the trial is stopped at its next rung. Ray
//   records NaN, never stops it, and leaves it out of the quantile.
// - A report that passes several rungs is booked at the highest, and the lower ones count as
//   passed. Ray books later reports, of better trained trials, at the rungs below.
// - The end of a trial books nothing. Ray applies the rule to its last report once more.
// Equal scores go on. A trial that reaches max_t is complete, and is not booked there.
#include <cmath>

#include "muster/base/text.h"
#include "muster/tune/schedule/asha/asha_options.h"
#include "muster/tune/schedule/asha/asha_types.h"
#include "muster/tune/schedule/asha/rung_ladder.h"

namespace muster::tune {
namespace {

constexpr Param kAshaParams[] = {
    param<&AshaOptions::max_t>("max_t", "the most that a trial is trained"),
    param<&AshaOptions::grace_period>("grace_period",
                                      "the lowest rung: no trial is stopped before"),
    param<&AshaOptions::reduction_factor>("reduction_factor",
                                          "each rung is so many times the one below"),
    param<&AshaOptions::brackets>("brackets", "bracket s leaves out the s lowest rungs"),
    param<&AshaOptions::stop_last_trials>("stop_last_trials", "trials end at max_t"),
    param<&AshaOptions::variant>("variant",
                                 "stopping (Ray's rule) or promotion (pause at each rung)"),
    param<&AshaOptions::ray_compat>("ray_compat", "decide as Ray does in every corner"),
    param<&AshaOptions::of>("of", kOfHelp)};

constexpr int64_t kMaxT = int64_t{1} << 53;  // times are compared with rungs as doubles
constexpr size_t kMaxRungs = 64;             // the rungs that a trial passed are bits of a word

void require(bool holds, std::string_view rule, std::string value) {
  if (holds) return;
  throw usage_error(
      {.refused = "scheduler asha", .rule = std::string(rule), .value = std::move(value)});
}

void check(const AshaOptions& o) {
  require(o.grace_period >= 1 && o.grace_period <= o.max_t && o.max_t <= kMaxT,
          "1 <= grace_period <= max_t <= 2^53",
          concat("grace_period=", o.grace_period, ",max_t=", o.max_t));
  require(o.reduction_factor > 1 && std::isfinite(o.reduction_factor),
          "reduction_factor is above 1",
          "reduction_factor=" + shortest(o.reduction_factor));
  require(o.variant == "stopping" || o.variant == "promotion",
          "variant is stopping or promotion",
          "variant=" + o.variant);
  require(!(o.ray_compat && o.variant == "promotion"),
          "ray_compat goes with variant=stopping: Ray has no other",
          "variant=promotion,ray_compat=true");
  require(o.brackets >= 1, "brackets is at least 1", concat("brackets=", o.brackets));
}

Ladders ladders_of(const AshaOptions& o) {
  const std::vector<double> all =
      rung_ladder(o.grace_period, o.max_t, o.reduction_factor, kMaxRungs + 1);
  require(all.size() <= kMaxRungs,
          concat("there are at most ", kMaxRungs, " rungs"),
          "reduction_factor=" + shortest(o.reduction_factor));
  require(o.brackets <= static_cast<int64_t>(all.size()),
          concat("a bracket has a rung, and there are ", all.size(), " rungs"),
          concat("brackets=", o.brackets));
  Ladders ladders;
  for (int64_t s = 0; s < o.brackets; ++s) {
    ladders.push_back(o.ray_compat ? ray_rung_ladder(o.grace_period, o.max_t, o.reduction_factor, s)
                                   : std::vector<double>(all.begin() + s, all.end()));
  }
  return ladders;
}

std::unique_ptr<Scheduler> make_asha(const SchedulerContext& context, const ParamValues& params) {
  const auto options = resolve_params<AshaOptions>(kAshaParams, params, "scheduler asha");
  check(options);
  const auto make_type =
      options.variant == "promotion" ? &make_asha_promotion : &make_asha_stopping;
  return make_type(context, options, ladders_of(options));
}

}  // namespace

std::string asha(const AshaOptions& options) {
  check(options);
  return spec_text("asha", kAshaParams, options);
}

extern constinit const SchedulerEntry asha_entry{
    "asha", "stops the worst share of trials at each rung", kAshaParams, &make_asha};

}  // namespace muster::tune
