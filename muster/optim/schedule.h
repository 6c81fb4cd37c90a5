// Learning rates over a run. One file of schedules/ adds one.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/entry.h"
#include "muster/base/json_fwd.h"
#include "muster/base/params.h"

namespace muster::optim {

class Optimizer;

// Note [Schedules]
// A schedule says what an optimizer step is made with, as a function of the step's place in the
// run. It is asked before every step, so that nothing has to be called at the right moment and a
// resumed run needs no more than its position:
//     apply(schedule->at({.step = position.step, .epoch = position.epoch}), optimizer);
//     optimizer.step();
// `step` counts finished optimizer steps over the whole run, `epoch` finished epochs: both are 0
// before the first step. Only `plateau` has state of its own. A schedule whose metric() is not
// empty is told that metric of the validation after each epoch, the same number on every rank,
// through after_epoch(); its state() goes into the checkpoint and load_state() takes it back.
//
// Values equal those of torch.optim.lr_scheduler within 1e-12 (PyTorch multiplies the last rate on,
// which gathers rounding; here the closed forms are evaluated anew). In PyTorch's terms, `at` with
// step s is the rate after s calls of scheduler.step().

/// A metric of the validation.
struct ScheduleMetric {
  std::string name;
  bool wants_less = false;  ///< what is better
};

/// What a run knows of itself; defaults of schedules come from it.
struct ScheduleContext {
  double lr = 0;            ///< the base learning rate
  int64_t total_steps = 0;  ///< optimizer steps of the whole run
  int64_t total_epochs = 0;
  /// What after_epoch() can be told of, besides the loss.
  std::vector<ScheduleMetric> metrics = {{.name = "accuracy"}};
};

/// The place of an optimizer step in the run, 0-based.
struct SchedulePosition {
  int64_t step = 0;
  int64_t epoch = 0;
};

/// What to make a step with.
struct ScheduleValue {
  double lr = 0;
  std::optional<double> momentum;  ///< only if the schedule moves it; see Optimizer::momentum
};

/// Options of every schedule, besides its own.
struct ScheduleTiming {
  std::string unit = "epoch";     ///< what the schedule counts: epoch or step
  int64_t warmup = 0;             ///< optimizer steps, whatever the unit
  double warmup_factor = 1. / 3;  ///< share of the rate at the first step of the warm-up
};

/// One schedule of one run. One thread at a time.
class Schedule {
 public:
  /// Throws a usage error that names `owner` for a unit, a warm-up or a context that makes no
  /// sense.
  Schedule(const ScheduleTiming& timing, const ScheduleContext& context, std::string_view owner);
  virtual ~Schedule() = default;

  /// For the step after `position.step` finished ones. During the warm-up the first value is
  /// approached on a straight line, as by SequentialLR([LinearLR, …]); a schedule that counts steps
  /// starts when the warm-up is over, one that counts epochs does not wait for it. Positions before
  /// 0 are taken as 0.
  ScheduleValue at(const SchedulePosition& position) const;

  /// "loss" or the name of another metric if the schedule needs that of the validation after each
  /// epoch; empty if it needs none.
  virtual std::string_view metric() const { return {}; }
  virtual void after_epoch(double /*metric*/) {}

  /// What `at` depends on besides the position; an object.
  virtual Json state() const;
  /// Throws a usage error for a state that is not one of this schedule.
  virtual void load_state(const Json& state);

 protected:
  /// The value after `t` units, 0-based, without warm-up.
  virtual ScheduleValue value(int64_t t) const = 0;

  const ScheduleContext& context() const { return context_; }
  /// Units that the run has for the schedule: all epochs, or all steps after the warm-up. At
  /// least 1.
  int64_t units() const;

 private:
  ScheduleContext context_;
  bool by_step_;
  int64_t warmup_;
  double warmup_factor_;
};

/// Sets the optimizer's learning rate and, if the value has one, its momentum.
void apply(const ScheduleValue& value, Optimizer& optimizer);

struct ScheduleEntry {
  static constexpr std::string_view kKind = "lr schedule";
  std::string_view name;
  std::string_view help;
  std::span<const Param> params;
  std::unique_ptr<Schedule> (*make)(const ScheduleContext& context, const ParamValues& params);
  bool needs_metric = false;  ///< its schedules' metric() is not empty
  /// The greatest momentum that its schedules set, with these values; null: they set none.
  double (*most_momentum)(const ParamValues& params) = nullptr;
  /// A value with which they set none, as it is typed, for a hint: "cycle_momentum=false".
  std::string_view without_momentum = {};
};

/// ScheduleEntry::most_momentum; 0 where none is set, or none above 0: an optimizer that keeps no
/// state without momentum keeps none then. Throws a usage error as make().
double most_momentum(const ScheduleEntry& entry, const ParamValues& params);

/// All schedules (generated; see Note [Generated tables]).
EntryTable<ScheduleEntry> schedules();

/// Makes the schedule that `spec` names: "cosine" or "step:step_size=30,gamma=0.2,warmup=500".
/// Throws a usage error for an unknown name or parameter.
std::unique_ptr<Schedule> make_schedule(const std::string& spec, const ScheduleContext& context);

namespace detail {

/// A parameter of the ScheduleTiming that an options struct has as member `Timing`.
template <auto Timing, auto Member>
consteval Param timing_param(std::string_view name, std::string_view help) {
  using Struct = typename muster::detail::MemberPointer<decltype(Timing)>::Struct;
  using Field = typename muster::detail::MemberPointer<decltype(Member)>::Field;
  using Type = muster::detail::ParamType<Field>;
  return {name,
          help,
          Type::kName,
          [](void* options, std::string_view text) {
            static_cast<Struct*>(options)->*Timing.*Member = Type::parse(text);
          },
          [](const void* options) {
            return Type::show(static_cast<const Struct*>(options)->*Timing.*Member);
          },
          [] { return Type::show((Struct{}.*Timing).*Member); }};
}

}  // namespace detail

/// A schedule's own parameters, followed by those of its timing:
/// `constexpr auto kParams = with_timing<&Options::timing>(param<…>(…), …);`.
template <auto Timing, class... Own>
consteval std::array<Param, sizeof...(Own) + 3> with_timing(const Own&... own) {
  return {own...,
          detail::timing_param<Timing, &ScheduleTiming::unit>(
              "unit", "what the schedule counts: epoch or step"),
          detail::timing_param<Timing, &ScheduleTiming::warmup>(
              "warmup", "optimizer steps in which the rate first rises on a line"),
          detail::timing_param<Timing, &ScheduleTiming::warmup_factor>(
              "warmup_factor", "share of the rate at the first step of the warm-up")};
}

}  // namespace muster::optim
