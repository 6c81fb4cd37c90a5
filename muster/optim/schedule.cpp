#include "muster/optim/schedule.h"

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/optim/optimizer.h"

namespace muster::optim {

Schedule::Schedule(const ScheduleTiming& timing,
                   const ScheduleContext& context,
                   std::string_view owner)
    : context_(context),
      by_step_(timing.unit == "step"),
      warmup_(timing.warmup),
      warmup_factor_(timing.warmup_factor) {
  if (!by_step_ && timing.unit != "epoch") {
    throw usage_error({.refused = concat(owner, " parameter \"unit\""),
                       .rule = "it is epoch or step",
                       .value = '"' + timing.unit + '"'});
  }
  if (warmup_ < 0 || !(warmup_factor_ > 0 && warmup_factor_ <= 1)) {
    throw usage_error({.refused = std::string(owner),
                       .rule = "warmup is not negative and warmup_factor is in (0, 1]",
                       .value = concat("warmup=", warmup_, ",warmup_factor=", warmup_factor_)});
  }
  if (warmup_ > 0 && warmup_ >= context.total_steps) {
    throw usage_error(
        {.refused = concat(owner, " parameter \"warmup\""),
         .rule = concat(
             "the run has ", context.total_steps, " steps, and some are left after the warm-up"),
         .value = std::to_string(warmup_)});
  }
  if (!(context.lr > 0 && std::isfinite(context.lr)) || context.total_steps < 0 ||
      context.total_epochs < 0) {
    throw usage_error({.refused = std::string(owner),
                       .rule = "the base learning rate is above 0, and steps and epochs are counts",
                       .value = concat("lr=",
                                       shortest(context.lr),
                                       ", total_steps=",
                                       context.total_steps,
                                       ", total_epochs=",
                                       context.total_epochs)});
  }
}

int64_t Schedule::units() const {
  return std::max<int64_t>(1, by_step_ ? context_.total_steps - warmup_ : context_.total_epochs);
}

ScheduleValue Schedule::at(const SchedulePosition& position) const {
  const int64_t step = std::max<int64_t>(0, position.step);
  if (step < warmup_) {
    ScheduleValue start = value(0);
    const double share = static_cast<double>(step) / static_cast<double>(warmup_);
    start.lr *= warmup_factor_ + (1 - warmup_factor_) * share;
    return start;
  }
  return value(by_step_ ? step - warmup_ : std::max<int64_t>(0, position.epoch));
}

Json Schedule::state() const { return Json::object(); }

void Schedule::load_state(const Json& state) {
  if (!state.is_object() || !state.empty()) {
    throw usage_error({.refused = "state of the lr schedule",
                       .rule = "this schedule has none",
                       .value = state.dump()});
  }
}

void apply(const ScheduleValue& value, Optimizer& optimizer) {
  optimizer.set_lr(value.lr);
  if (value.momentum) optimizer.set_momentum(*value.momentum);
}

double most_momentum(const ScheduleEntry& entry, const ParamValues& params) {
  return entry.most_momentum == nullptr ? 0 : entry.most_momentum(params);
}

std::unique_ptr<Schedule> make_schedule(const std::string& spec, const ScheduleContext& context) {
  const auto [name, params] = parse_spec(spec);
  return schedules().at(name).make(context, params);
}

}  // namespace muster::optim
