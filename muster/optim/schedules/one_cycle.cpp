// Up to max_lr, then down far below the start, momentum the other way. Source: Smith & Topin 2018,
// "Super-convergence"; phases and their ends as in torch.optim.lr_scheduler.OneCycleLR.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "muster/base/text.h"
#include "muster/optim/schedule.h"

namespace muster::optim {
namespace {

struct OneCycleOptions {
  double max_lr = 0;
  int64_t total_steps = 0;
  double pct_start = 0.3;
  std::string anneal = "cos";
  bool cycle_momentum = true;
  double base_momentum = 0.85;
  double max_momentum = 0.95;
  double div_factor = 25;
  double final_div_factor = 1e4;
  bool three_phase = false;
  ScheduleTiming timing{.unit = "step"};
};

constexpr auto kOneCycleParams = with_timing<&OneCycleOptions::timing>(
    param<&OneCycleOptions::max_lr>("max_lr", "the highest rate; 0: the base learning rate"),
    param<&OneCycleOptions::total_steps>("total_steps", "units of the cycle; 0: all of the run"),
    param<&OneCycleOptions::pct_start>("pct_start", "share of the cycle in which the rate rises"),
    param<&OneCycleOptions::anneal>("anneal", "the shape of a phase: cos or linear"),
    param<&OneCycleOptions::cycle_momentum>("cycle_momentum", "move momentum (or beta1) too"),
    param<&OneCycleOptions::base_momentum>("base_momentum", "momentum at the highest rate"),
    param<&OneCycleOptions::max_momentum>("max_momentum", "momentum at both ends"),
    param<&OneCycleOptions::div_factor>("div_factor", "max_lr / first rate"),
    param<&OneCycleOptions::final_div_factor>("final_div_factor", "first rate / last rate"),
    param<&OneCycleOptions::three_phase>("three_phase",
                                         "fall as fast as it rose, then to the end"));

class OneCycle final : public Schedule {
 public:
  OneCycle(const ScheduleContext& context, const OneCycleOptions& options);

 protected:
  ScheduleValue value(int64_t t) const override;

 private:
  struct Phase {
    double end;  // the unit at which its end values are reached
    double start_lr, end_lr, start_momentum, end_momentum;
  };
  double anneal(double start, double end, double share) const {
    if (!cosine_) return (end - start) * share + start;
    return end + (start - end) / 2 * (std::cos(std::numbers::pi * share) + 1);
  }

  bool cosine_, cycle_momentum_;
  std::vector<Phase> phases_;
};

OneCycle::OneCycle(const ScheduleContext& context, const OneCycleOptions& options)
    : Schedule(options.timing, context, "lr schedule one_cycle"),
      cosine_(options.anneal == "cos"),
      cycle_momentum_(options.cycle_momentum) {
  const int64_t total = options.total_steps > 0 ? options.total_steps : units();
  if (total < units()) {
    throw usage_error(
        {.refused = "lr schedule one_cycle parameter \"total_steps\"",
         .rule = concat("the cycle is not over before the run, which has ", units(), " for it"),
         .value = std::to_string(total),
         .hint = "leave it away: the cycle then takes all of the run"});
  }
  const double max_lr = options.max_lr > 0 ? options.max_lr : context.lr;
  const double first_lr = max_lr / options.div_factor;
  const double last_lr = first_lr / options.final_div_factor;
  const double low = options.base_momentum, high = options.max_momentum;
  const double rise = options.pct_start * static_cast<double>(total);
  const double end = static_cast<double>(total - 1);
  if (options.three_phase) {
    phases_ = {{rise - 1, first_lr, max_lr, high, low},
               {2 * rise - 2, max_lr, first_lr, low, high},
               {end, first_lr, last_lr, high, high}};
  } else {
    phases_ = {{rise - 1, first_lr, max_lr, high, low}, {end, max_lr, last_lr, low, high}};
  }
}

ScheduleValue OneCycle::value(int64_t t) const {
  // PyTorch refuses steps beyond the cycle; a run that was made longer stays at the last rate.
  const double unit = std::min(static_cast<double>(t), phases_.back().end);
  double start = 0;
  size_t i = 0;
  for (; i + 1 < phases_.size() && unit > phases_[i].end; ++i) start = phases_[i].end;
  const Phase& phase = phases_[i];
  // A phase of no length (a cycle of some three steps) is over at once; PyTorch divides by zero.
  const double share = phase.end == start ? 1 : (unit - start) / (phase.end - start);
  ScheduleValue out{.lr = anneal(phase.start_lr, phase.end_lr, share)};
  if (cycle_momentum_) out.momentum = anneal(phase.start_momentum, phase.end_momentum, share);
  return out;
}

std::unique_ptr<Schedule> make_one_cycle(const ScheduleContext& context,
                                         const ParamValues& params) {
  const auto options =
      resolve_params<OneCycleOptions>(kOneCycleParams, params, "lr schedule one_cycle");
  const auto refuse_one_cycle = [](std::string rule, std::string value) {
    throw usage_error(
        {.refused = "lr schedule one_cycle", .rule = std::move(rule), .value = std::move(value)});
  };
  const auto share = [](double value) { return value >= 0 && value <= 1; };
  if (!share(options.pct_start))
    refuse_one_cycle("pct_start is in [0, 1]", shortest(options.pct_start));
  if (options.three_phase && options.pct_start > 0.5)
    refuse_one_cycle("with three_phase, pct_start is at most 0.5", shortest(options.pct_start));
  if (options.anneal != "cos" && options.anneal != "linear")
    refuse_one_cycle("anneal is cos or linear", '"' + options.anneal + '"');
  if (!(share(options.base_momentum) && share(options.max_momentum)) ||
      options.base_momentum == 1 || options.max_momentum == 1) {
    refuse_one_cycle("base_momentum and max_momentum are in [0, 1)",
                     concat(options.base_momentum, " and ", options.max_momentum));
  }
  if (!(options.max_lr >= 0) || options.total_steps < 0 || !(options.div_factor > 0) ||
      !(options.final_div_factor > 0)) {
    refuse_one_cycle("max_lr and total_steps are not negative; the factors are above 0",
                     concat("max_lr=",
                            options.max_lr,
                            ",total_steps=",
                            options.total_steps,
                            ",div_factor=",
                            options.div_factor,
                            ",final_div_factor=",
                            options.final_div_factor));
  }
  return std::make_unique<OneCycle>(context, options);
}

double most_one_cycle_momentum(const ParamValues& params) {
  const auto options =
      resolve_params<OneCycleOptions>(kOneCycleParams, params, "lr schedule one_cycle");
  return options.cycle_momentum ? std::max(options.base_momentum, options.max_momentum) : 0;
}

}  // namespace

extern constinit const ScheduleEntry one_cycle_entry{
    .name = "one_cycle",
    .help = "up to max_lr, then down to almost nothing",
    .params = kOneCycleParams,
    .make = &make_one_cycle,
    .most_momentum = &most_one_cycle_momentum,
    .without_momentum = "cycle_momentum=false"};

}  // namespace muster::optim
