#include "muster/train/record/run_log.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/track/metrics_reader.h"
#include "muster/train/record/run_files.h"

namespace muster::train {
namespace {

constexpr double kProgressPeriod = 0.1;  // seconds between two progress events

/// 1, 2, …: the epoch that the position is in, or that ends there.
int64_t epoch_of(const formats::TrainPosition& position) {
  return std::max<int64_t>(1, position.epoch + (position.samples > 0 ? 1 : 0));
}

/// What the processes that wrote these rows took.
double seconds_in(std::span<const track::MetricsRecord> rows) {
  double most = 0;
  for (const track::MetricsRecord& row : rows) {
    const double* elapsed = row.find("elapsed_s");
    if (elapsed != nullptr && std::isfinite(*elapsed)) most = std::max(most, *elapsed);
  }
  return most;
}

}  // namespace

RunLog::RunLog(const TrainPlan& plan,
               const std::filesystem::path& output,
               bool is_first,
               const TrainCallbacks& callbacks)
    : plan_(plan), callbacks_(callbacks), output_(output), is_first_(is_first) {}

void RunLog::open(int64_t resumed_after) {
  if (!is_first_) return;
  write_file_atomic(output_ / "config.json", json_text(to_json(plan_), 2) + '\n');
  metrics_.emplace(output_, resumed_after);
  for (const std::string& line : metrics_->damage()) note(line);
  if (resumed_after >= 0) before_s_ = seconds_in(track::read_metrics(output_));
  if (plan_.options.tensorboard != "off") open_tensorboard(resumed_after);
  pictures_due_ = plan_.options.tensorboard == "all";
}

/// Readers purge by step alone. So that a test at the very step, which the run makes again, goes
/// too, that step is purged and its other points are written anew; and all points are where the
/// folder has no events of the run so far, which began in another one.
void RunLog::open_tensorboard(int64_t resumed_after) {
  const std::filesystem::path folder = output_ / "tensorboard";
  std::error_code none;
  const bool is_empty = !std::filesystem::exists(folder) || std::filesystem::is_empty(folder, none);
  std::optional<int64_t> purge_step;
  if (!is_empty) purge_step = resumed_after + (metrics_->has_dropped_test() ? 0 : 1);
  tensorboard_.emplace(plan_, folder, resumed_after, purge_step);
  if (resumed_after < 0) return;
  const int64_t first = is_empty ? 0 : purge_step.value_or(0);
  for (const track::MetricsRecord& row : track::read_metrics(output_)) {
    if (row.step >= first) tensorboard_->row(row);
  }
}

double RunLog::seconds() const {
  return before_s_ + std::chrono::duration<double>(Clock::now() - start_).count();
}

void RunLog::count_step(int64_t samples, double seconds) {
  ++steps_here_;
  samples_here_ += samples;
  step_seconds_ += seconds;
}

track::MetricsRow RunLog::row(const std::string& phase,
                              const formats::TrainPosition& position,
                              const Meter& meter) const {
  track::MetricsRow row{.step = position.step, .epoch = epoch_of(position), .phase = phase};
  if (meter.count > 0) {
    row.loss = meter.loss();
    row.accuracy = meter.accuracy();
  }
  row.elapsed_s = seconds();
  return row;
}

void RunLog::train(const formats::TrainPosition& position,
                   const Meter& meter,
                   const TrainRow& extra) {
  if (!is_first_) return;
  track::MetricsRow out = row("train", position, meter);
  out.lr = extra.lr;
  out.gradient_norm = extra.gradient_norm;
  out.epoch_s = std::chrono::duration<double>(Clock::now() - epoch_start_).count();
  if (step_seconds_ > 0) out.samples_per_s = static_cast<double>(samples_here_) / step_seconds_;
  write(out);
}

void RunLog::write(const track::MetricsRow& row) {
  metrics_->write(row);
  if (tensorboard_) tensorboard_->row(row);
}

void RunLog::batch(const at::Tensor& data, const formats::TrainPosition& position) {
  if (!pictures_due_) return;
  pictures_due_ = false;
  tensorboard_->images(data, position.step);
}

void RunLog::weights(const models::Classifier& model, const formats::TrainPosition& position) {
  if (is_first_ && plan_.options.tensorboard == "all")
    tensorboard_->histograms(model, position.step);
}

void RunLog::evaluated(const std::string& phase,
                       const formats::TrainPosition& position,
                       const Evaluation& evaluation) {
  if (!is_first_) return;
  track::MetricsRow out = row(phase, position, evaluation.meter);
  if (plan_.options.top_k > 0) out.top_k_accuracy = evaluation.top_k_accuracy();
  write(out);
}

void RunLog::progress(const std::string& phase,
                      const formats::TrainPosition& position,
                      int64_t step,
                      int64_t steps,
                      const Meter& meter) {
  if (!is_first_ || !callbacks_.progress) return;
  const auto now = Clock::now();
  if (step < steps && std::chrono::duration<double>(now - last_progress_).count() < kProgressPeriod)
    return;
  last_progress_ = now;
  track::ProgressEvent event{.phase = phase,
                             .epoch = epoch_of(position),
                             .epochs = plan_.options.epochs,
                             .step = step,
                             .steps = steps};
  if (meter.count > 0) {
    event.loss = meter.loss();
    event.accuracy = meter.accuracy();
  }
  if (steps_here_ > 0 && phase == "train") {
    event.samples_per_s = static_cast<double>(samples_here_) / step_seconds_;
    event.eta_s = step_seconds_ / static_cast<double>(steps_here_) *
                  static_cast<double>(plan_.total_steps - position.step);
  }
  callbacks_.progress(event);
}

void RunLog::finish(const TrainResult& result) {
  if (!is_first_) return;
  if (tensorboard_)
    tensorboard_->finish(result.interrupted ? std::nullopt
                                            : std::optional(track::RunStatus::kSuccess));
  try {
    write_run_page(plan_,
                   output_,
                   {.steps = result.steps,
                    .interrupted = result.interrupted,
                    .seconds = seconds(),
                    .test = result.interrupted ? nullptr : &result.test},
                   callbacks_.about);
  } catch (const Error& error) {
    // Rows that somebody damaged while the run went on: no reason to lose its result.
    if (error.kind() != ErrorKind::kUsage) throw;
    note(concat("the page of curves is not written: ", error.what()));
  }
}

void RunLog::diverged(int64_t steps, const std::string& why) {
  if (!is_first_) return;
  try {
    if (tensorboard_) tensorboard_->finish(track::RunStatus::kFailure);
    write_run_page(plan_,
                   output_,
                   {.steps = steps, .why_failed = why, .seconds = seconds()},
                   callbacks_.about);
  } catch (const std::exception& error) {
    note(concat("the page of the run was not written: ", error.what()));
  }
}

void RunLog::note(const std::string& line) const {
  if (is_first_ && callbacks_.note) callbacks_.note(line);
}

}  // namespace muster::train
