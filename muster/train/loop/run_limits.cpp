#include "muster/train/loop/run_limits.h"

#include <string>
#include <string_view>

#include "muster/base/counted.h"
#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/optim/schedule.h"

namespace muster::train {
namespace {

/// `one`: what there are at most so many of, if that is to be said.
void at_most(
    const char* flag, int64_t value, int64_t most, std::string_view one, std::string_view of) {
  if (value <= most) return;
  throw usage_error(
      {.refused = flag,
       .rule = concat("at most the ", one.empty() ? std::to_string(most) : counted(most, one), of),
       .value = std::to_string(value)});
}

}  // namespace

void shorten(FitOptions& options) {
  options.epochs = options.check_val_every_n_epoch = 1;
  options.max_steps = options.min_epochs = options.min_steps = 0;
  options.max_time = 0;
  options.limit_train_batches = options.limit_val_batches = options.limit_test_batches = 1;
  options.val_check_interval = options.patience = options.num_sanity_val_steps = 0;
  options.test_weights = "last";
}

void limit_to_overfit(FitOptions& options) {
  const int64_t batches = options.overfit_batches;
  if (batches == 0) return;
  const auto limit = [&](const char* flag, int64_t& own) {
    if (own != -1 && own != batches) {
      throw usage_error({.refused = concat("--overfit-batches ", batches),
                         .rule = "it says itself how many batches there are",
                         .value = concat(flag, ' ', own),
                         .hint = concat("leave ", flag, " away")});
    }
    own = batches;
  };
  limit("--limit-train-batches", options.limit_train_batches);
  if (options.limit_val_batches != 0) limit("--limit-val-batches", options.limit_val_batches);
}

void check_least_and_most(const FitOptions& options, const FitNumbers& numbers) {
  at_most("--min-epochs", options.min_epochs, options.epochs, "", " of --epochs");
  if (options.max_steps > 0)
    at_most("--min-steps", options.min_steps, options.max_steps, "", " of --max-steps");
  at_most("--min-steps", options.min_steps, numbers.total_steps, "step", " of all epochs");
  if (numbers.steps_per_epoch > 0)
    at_most("--min-epochs",
            options.min_epochs,
            numbers.total_steps / numbers.steps_per_epoch,
            "whole epoch",
            " within --max-steps");
}

void check_validation(const FitOptions& options, const FitNumbers& numbers) {
  const int64_t interval = options.val_check_interval, every = options.check_val_every_n_epoch;
  if (numbers.validation_samples > 0 && options.limit_val_batches != 0) {
    at_most("--val-check-interval", interval, numbers.steps_per_epoch, "step", " of an epoch");
    if (every > 1)
      at_most("--check-val-every-n-epoch", every, options.epochs, "epoch", ", else there is none");
    return;
  }
  const bool scheduled = optim::schedules().at(numbers.schedule_name).needs_metric;
  if (options.patience == 0 && options.test_weights == "last" && !scheduled && interval == 0 &&
      every == 1 && options.num_sanity_val_steps == 0)
    return;
  const bool limited = numbers.validation_samples > 0;
  throw usage_error({.refused = options.patience > 0             ? "--patience"
                                : options.test_weights == "best" ? "--test-weights best"
                                : interval > 0                   ? "--val-check-interval"
                                : every > 1                      ? "--check-val-every-n-epoch"
                                : options.num_sanity_val_steps != 0
                                    ? "--num-sanity-val-steps"
                                    : "--lr-schedule " + numbers.schedule_name,
                     .rule = "it is decided by the validation samples",
                     .value = limited ? "--limit-val-batches 0" : "none are held out",
                     .hint = limited ? "leave --limit-val-batches away, or give some"
                                     : "hold out some of the training samples"});
}

}  // namespace muster::train
