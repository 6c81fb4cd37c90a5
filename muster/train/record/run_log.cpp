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

/// Of metrics.csv: what the loop measures stands behind the task's metrics.
std::vector<std::string> columns_of(const std::vector<Metric>& metrics) {
  std::vector<std::string> columns{"loss"};
  for (const Metric& metric : shown_metrics(metrics)) columns.push_back(metric.name);
  for (const char* own : {"lr", "samples_per_s", "elapsed_s", "gradient_norm", "epoch_s"})
    columns.emplace_back(own);
  return columns;
}

/// What the processes that wrote these rows took.
double seconds_in(std::span<const track::MetricsRow> rows) {
  double most = 0;
  for (const track::MetricsRow& row : rows) {
    const double* elapsed = row.find("elapsed_s");
    if (elapsed != nullptr && std::isfinite(*elapsed)) most = std::max(most, *elapsed);
  }
  return most;
}

}  // namespace

RunLog::RunLog(const FitPlan& plan,
               const std::filesystem::path& output,
               bool is_first,
               const FitCallbacks& callbacks)
    : plan_(plan), callbacks_(callbacks), output_(output), is_first_(is_first) {}

void RunLog::open(int64_t resumed_after, const std::vector<Metric>& metrics, track::EndRows ends) {
  if (!is_first_) return;
  write_file_atomic(output_ / "config.json", json_text(plan_.record, 2) + '\n');
  metrics_.emplace(output_, resumed_after, columns_of(metrics), ends);
  for (const std::string& line : metrics_->damage()) note(line);
  if (plan_.options.tensorboard != "off") open_tensorboard(resumed_after, metrics);
  pictures_due_ = plan_.options.tensorboard == "all";
}

void RunLog::count_rows_before(int64_t step) {
  const std::filesystem::path file = output_ / "metrics.jsonl";
  if (!is_first_ || !std::filesystem::exists(file)) return;
  const std::string kept = track::metrics_rows_until(read_file(file), step, file.string()).text;
  count_before(seconds_in(track::parse_metrics(kept, file.string())));
}

/// Readers purge by step alone. So that rows of an end at the very step, which are made again, go too,
/// that step is purged and its other points are written anew; and all points are where the
/// folder has no events of the run so far, which began in another one.
void RunLog::open_tensorboard(int64_t resumed_after, const std::vector<Metric>& metrics) {
  const std::filesystem::path folder = output_ / "tensorboard";
  std::error_code none;
  const bool is_empty = !std::filesystem::exists(folder) || std::filesystem::is_empty(folder, none);
  std::optional<int64_t> purge_step;
  if (!is_empty) purge_step = resumed_after + (metrics_->has_dropped_end() ? 0 : 1);
  tensorboard_.emplace(plan_, metrics, folder, resumed_after, purge_step);
  if (resumed_after < 0) return;
  const int64_t first = is_empty ? 0 : purge_step.value_or(0);
  for (const track::MetricsRow& row : track::read_metrics(output_)) {
    if (row.step >= first) tensorboard_->row(row);
  }
}

double RunLog::seconds() const {
  if (callbacks_.clock) return before_s_ + callbacks_.clock();
  return before_s_ + std::chrono::duration<double>(Clock::now() - start_).count();
}

void RunLog::count_step(int64_t samples, double seconds) {
  ++steps_here_;
  samples_here_ += samples;
  step_seconds_ += seconds;
}

track::MetricsRow RunLog::row(const std::string& phase,
                              const formats::TrainPosition& position,
                              const Metrics& metrics) const {
  return {position.step, epoch_of(position), phase, metrics.items()};
}

void RunLog::train(const formats::TrainPosition& position,
                   const Metrics& metrics,
                   const TrainRow& extra) {
  if (!is_first_) return;
  track::MetricsRow out = row("train", position, metrics);
  out.values.emplace_back("lr", extra.lr);
  if (step_seconds_ > 0)
    out.values.emplace_back("samples_per_s", static_cast<double>(samples_here_) / step_seconds_);
  out.values.emplace_back("elapsed_s", seconds());
  if (extra.gradient_norm) out.values.emplace_back("gradient_norm", *extra.gradient_norm);
  out.values.emplace_back("epoch_s",
                          std::chrono::duration<double>(Clock::now() - epoch_start_).count());
  write(out);
}

void RunLog::write(const track::MetricsRow& row) {
  metrics_->write(row);
  if (tensorboard_) tensorboard_->row(row);
}

void RunLog::images(const at::Tensor& images, const formats::TrainPosition& position) {
  pictures_due_ = false;
  if (images.defined() && images.dim() == 4) tensorboard_->images(images, position.step);
}

void RunLog::weights(const tensor::NamedTensorList& parameters,
                     const formats::TrainPosition& position) {
  if (is_first_ && plan_.options.tensorboard == "all")
    tensorboard_->histograms(parameters, position.step);
}

void RunLog::evaluated(const std::string& phase,
                       const formats::TrainPosition& position,
                       const Metrics& metrics) {
  if (!is_first_) return;
  track::MetricsRow out = row(phase, position, metrics);
  out.values.emplace_back("elapsed_s", seconds());
  write(out);
}

void RunLog::progress(const std::string& phase,
                      const formats::TrainPosition& position,
                      int64_t step,
                      int64_t steps,
                      const Metrics& metrics) {
  if (!is_first_ || !callbacks_.progress) return;
  const auto now = Clock::now();
  if (step < steps && std::chrono::duration<double>(now - last_progress_).count() < kProgressPeriod)
    return;
  last_progress_ = now;
  track::ProgressEvent event{.phase = phase,
                             .epoch = epoch_of(position),
                             .epochs = plan_.options.epochs,
                             .step = step,
                             .steps = steps,
                             .metrics = metrics.items()};
  if (steps_here_ > 0 && phase == "train") {
    event.samples_per_s = static_cast<double>(samples_here_) / step_seconds_;
    event.eta_s = step_seconds_ / static_cast<double>(steps_here_) *
                  static_cast<double>(plan_.total_steps - position.step);
  }
  callbacks_.progress(event);
}

bool RunLog::end_run(const FitResult& result) {
  if (!is_first_) return true;
  if (tensorboard_)
    tensorboard_->end_run(result.interrupted ? std::nullopt
                                             : std::optional(track::RunStatus::kSuccess));
  try {
    write_run_page(plan_,
                   output_,
                   {.steps = result.steps,
                    .interrupted = result.interrupted,
                    .seconds = seconds(),
                    .test = result.interrupted ? nullptr : &result.test,
                    .memory = result.memory},
                   callbacks_.about);
  } catch (const Error& error) {
    // Rows that somebody damaged while the run went on, a disk that is full now: no reason to lose a
    // result that is found and saved.
    note(concat("the page of curves is not written: ", error.what()));
    return false;
  }
  return true;
}

void RunLog::diverged(int64_t steps, const std::string& why) {
  if (!is_first_ || !metrics_) return;  // not open: there is no run's folder
  try {
    if (tensorboard_) tensorboard_->end_run(track::RunStatus::kFailure);
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
