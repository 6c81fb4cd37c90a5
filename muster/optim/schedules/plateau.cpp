// Lower when a metric of the validation stopped getting better. Source:
// torch.optim.lr_scheduler.ReduceLROnPlateau.
#include <algorithm>
#include <limits>
#include <vector>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/optim/schedule.h"

namespace muster::optim {
namespace {

struct PlateauOptions {
  double factor = 0.1;
  int64_t patience = 10;
  double threshold = 1e-4;
  std::string threshold_mode = "rel";
  int64_t cooldown = 0;
  double min_lr = 0;
  double eps = 1e-8;
  std::string metric = "loss";
  std::string mode = "auto";
  ScheduleTiming timing;
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr auto kPlateauParams = with_timing<&PlateauOptions::timing>(
    param<&PlateauOptions::factor>("factor", "factor of each change"),
    param<&PlateauOptions::patience>("patience", "epochs without a better metric that are borne"),
    param<&PlateauOptions::threshold>("threshold", "how much better counts as better"),
    param<&PlateauOptions::threshold_mode>("threshold_mode", "rel: a share of the best; abs"),
    param<&PlateauOptions::cooldown>("cooldown", "epochs after a change that are not counted"),
    param<&PlateauOptions::min_lr>("min_lr", "the lowest rate"),
    param<&PlateauOptions::eps>("eps", "a change by less is not made"),
    param<&PlateauOptions::metric>("metric",
                                   "of the validation: loss, accuracy, or another of the task"),
    param<&PlateauOptions::mode>("mode", "min, max, or auto: what the metric needs"));

/// Whether less of it is better.
bool falls(const ScheduleContext& context, const std::string& metric) {
  for (const ScheduleMetric& own : context.metrics)
    if (own.name == metric) return own.wants_less;
  return true;  // the loss
}

class Plateau final : public Schedule {
 public:
  Plateau(const ScheduleContext& context, const PlateauOptions& options)
      : Schedule(options.timing, context, "lr schedule plateau"),
        options_(options),
        wants_less_(options.mode == "auto" ? falls(context, options.metric)
                                           : options.mode == "min"),
        lr_(context.lr) {}

  std::string_view metric() const override { return options_.metric; }

  void after_epoch(double metric) override {
    if (is_better(metric)) {
      best_ = metric;
      bad_epochs_ = 0;
    } else {
      ++bad_epochs_;
    }
    if (cooldown_ > 0) {
      --cooldown_;
      bad_epochs_ = 0;
    }
    if (bad_epochs_ <= options_.patience) return;
    const double lower = std::max(lr_ * options_.factor, options_.min_lr);
    if (lr_ - lower > options_.eps) lr_ = lower;
    cooldown_ = options_.cooldown;
    bad_epochs_ = 0;
  }

  Json state() const override {
    return {{"lr", lr_},
            {"best", best_ ? Json(*best_) : Json()},
            {"bad_epochs", bad_epochs_},
            {"cooldown", cooldown_}};
  }

  void load_state(const Json& state) override {
    try {
      const Json& best = state.at("best");
      best_ = best.is_null() ? std::nullopt : std::optional(best.get<double>());
      lr_ = state.at("lr").get<double>();
      bad_epochs_ = state.at("bad_epochs").get<int64_t>();
      cooldown_ = state.at("cooldown").get<int64_t>();
    } catch (const Json::exception& error) {
      throw usage_error({.refused = "state of the lr schedule plateau",
                         .rule = "it has lr, best, bad_epochs and cooldown",
                         .value = error.what()});
    }
  }

 protected:
  ScheduleValue value(int64_t) const override { return {.lr = lr_}; }

 private:
  bool is_better(double metric) const {
    if (!best_) return wants_less_ ? metric < kInfinity : metric > -kInfinity;
    const bool relative = options_.threshold_mode == "rel";
    if (wants_less_)
      return metric < (relative ? *best_ * (1 - options_.threshold) : *best_ - options_.threshold);
    return metric > (relative ? *best_ * (options_.threshold + 1) : *best_ + options_.threshold);
  }

  PlateauOptions options_;
  bool wants_less_;
  double lr_;
  std::optional<double> best_;
  int64_t bad_epochs_ = 0, cooldown_ = 0;
};

std::unique_ptr<Schedule> make_plateau(const ScheduleContext& context, const ParamValues& params) {
  const auto options =
      resolve_params<PlateauOptions>(kPlateauParams, params, "lr schedule plateau");
  const auto one_of =
      [](const char* name, const std::string& value, const std::vector<std::string>& known) {
        if (std::find(known.begin(), known.end(), value) == known.end()) {
          throw usage_error({.refused = concat("lr schedule plateau parameter \"", name, "\""),
                             .rule = join(known, " or "),
                             .value = '"' + value + '"',
                             .hint = suggestion(value, known)});
        }
      };
  one_of("threshold_mode", options.threshold_mode, {"rel", "abs"});
  std::vector<std::string> metrics{"loss"};
  for (const ScheduleMetric& metric : context.metrics) metrics.push_back(metric.name);
  one_of("metric", options.metric, metrics);
  one_of("mode", options.mode, {"auto", "min", "max"});
  one_of("unit", options.timing.unit, {"epoch"});
  if (!(options.factor > 0 && options.factor < 1) || options.patience < 0 || options.cooldown < 0 ||
      !(options.threshold >= 0) || !(options.min_lr >= 0) || !(options.eps >= 0)) {
    throw usage_error({.refused = "lr schedule plateau",
                       .rule = "factor is in (0, 1); the other numbers are not negative",
                       .value = concat("factor=",
                                       options.factor,
                                       ",patience=",
                                       options.patience,
                                       ",threshold=",
                                       options.threshold,
                                       ",cooldown=",
                                       options.cooldown,
                                       ",min_lr=",
                                       options.min_lr,
                                       ",eps=",
                                       options.eps)});
  }
  return std::make_unique<Plateau>(context, options);
}

}  // namespace

extern constinit const ScheduleEntry plateau_entry{
    .name = "plateau",
    .help = "lower when the validation stopped getting better",
    .params = kPlateauParams,
    .make = &make_plateau,
    .needs_metric = true};

}  // namespace muster::optim
