// What comes of the steps of fit(), when the host knows it.
#include <cmath>

#include "muster/base/text.h"
#include "muster/train/loop/training.h"

namespace muster::train::detail {

/// What the ranks have told each other of their steps, but for the newest `keep` answers. Ends the
/// run where a hook has thrown or a loss is not finite: on the CPU before the step is applied. A wish
/// to stop waits until it is, for forward has already moved BatchNorm's statistics.
void Trainer::hear(size_t keep) {
  while (step_report_->pending() > keep) {
    step_report_->wait();
    if (step_report_->hook_failed()) check_hooks();
    auto step = made_.begin();
    while (step->answers_due == 0) ++step;
    const int64_t ranks = step_report_->ranks_not_finite();
    if (ranks > 0 && !scaler().enabled()) {
      divergence_.end(
          in(*step),
          {.what = "the loss", .value = concat(ranks, " of ", group_.world_size(), " ranks")});
    }
    if (!searches_lr_) divergence_.check_metrics(step_report_->sum(), in(*step));
    step->sum.add(step_report_->sum());
    stop_wished_ = stop_wished_ || step_report_->stop();
    time_is_over_ = time_is_over_ || step_report_->time_is_over();
    if (--step->answers_due == 0) record_heard();
  }
}

/// Of all steps so far, before anything is scored or saved.
void Trainer::hear_all() {
  hear(0);
  record_heard();
}

void Trainer::check_norm(MadeStep& step) {
  if (!step.gradient_norm) return;
  gradient_norm_ = step.gradient_norm->wait().item<double>();
  if (!std::isfinite(*gradient_norm_))
    divergence_.end(in(step), {.what = "the gradients' norm", .value = shortest(*gradient_norm_)});
}

/// Rows, lines and hooks of the steps that are made and heard of. Of a step in hand they wait.
void Trainer::record_heard() {
  while (!made_.empty() && made_.front().answers_due == 0 &&
         made_.front().before.step < position_.step) {
    MadeStep step = std::move(made_.front());
    made_.pop_front();
    gradient_norm_.reset();
    check_norm(step);
    step_meter_ = step.sum;
    epoch_meter_.add(step.sum);
    window_meter_.add(step.sum);
    if (position_.step % plan_.options.log_every == 0) {
      write_train_row(step.lr);
      window_meter_ = Meter(metrics_);
    }
    log_.progress(
        "train", position_, step_in_epoch(), plan_.steps_per_epoch, epoch_meter_.metrics());
    if (callbacks_.step_ended) {
      callbacks_.step_ended({.at = hooks_.here(),
                             .metrics = step.sum.metrics(),
                             .lr = step.lr,
                             .gradient_norm = gradient_norm_});
    }
  }
}

}  // namespace muster::train::detail
