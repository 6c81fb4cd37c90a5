#include "muster/train/progress/step_timeline.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/path_names.h"
#include "muster/base/text.h"

namespace muster::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOnDevice = "compute";

/// The other ranks' parts come to rank 0 one after the other: it holds one at a time.
void send(const distributed::ProcessGroup& group, const std::string& text) {
  at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::copy(text.begin(), text.end(), bytes.mutable_data_ptr<uint8_t>());
  std::vector<at::Tensor> tensors{bytes.to(group.device())};
  group.c10d()->send(tensors, 0, 0)->wait();
}

std::string receive(const distributed::ProcessGroup& group, int from, int64_t size) {
  std::vector<at::Tensor> tensors{at::empty({size}, at::kByte).to(group.device())};
  group.c10d()->recv(tensors, from, 0)->wait();
  const at::Tensor bytes = tensors[0].cpu();
  const uint8_t* data = bytes.const_data_ptr<uint8_t>();
  return {data, data + size};
}

/// The file of the trace. What goes wrong with it is kept and stops the rest of it, not the ranks.
class TraceFile {
 public:
  TraceFile(const fs::path& path, int64_t start_ns) {
    attempt([&] {
      file_.emplace(path);
      trace_.emplace(start_ns, [this](std::string_view text) { file_->write(text); });
    });
  }

  void add(const std::string& part) {
    attempt([&] { trace_->add(part); });
  }

  void close() {
    attempt([&] {
      trace_->close();
      file_->commit();
    });
    file_.reset();
  }

  const std::string& error() const { return error_; }

 private:
  template <class Action>
  void attempt(const Action& action) {
    if (!error_.empty()) return;
    try {
      action();
    } catch (const std::exception& error) {
      error_ = error.what();
    }
  }

  std::optional<AtomicFile> file_;
  std::optional<diagnose::ChromeTrace> trace_;
  std::string error_;
};

}  // namespace

void check_trace(const TraceOptions& options, bool leaves_nothing) {
  if (options.steps < 1 || options.steps > TraceOptions::kMaxSteps) {
    throw usage_error({.refused = "--trace-steps",
                       .rule = concat("1 to ", TraceOptions::kMaxSteps, " steps"),
                       .value = concat(options.steps)});
  }
  if (options.file.empty()) return;
  if (fs::is_directory(options.file))
    throw usage_error({.refused = "--trace " + options.file.string(),
                       .rule = "the trace is a file, and this is a folder"});
  constexpr std::string_view kFolder = "folder of --trace";
  const fs::path folder = fs::absolute(options.file).parent_path();
  leaves_nothing ? require_writable_folder(folder, kFolder) : make_writable_folder(folder, kFolder);
}

StepTimeline::StepTimeline(TraceOptions options,
                           distributed::ProcessGroup group,
                           std::function<void(const std::string&)> note,
                           c10::Device device)
    : options_(std::move(options)), group_(std::move(group)), note_(std::move(note)) {
  if (options_.file.empty()) return;
  timeline_.emplace(diagnose::TimelineOptions{.rank = group_.rank(),
                                              .steps = options_.steps,
                                              .warm_up = options_.warm_up,
                                              .knows_ends = group_.device().is_cpu(),
                                              .recorder = distributed::flight_recorder(group_)});
  if (!device.is_cpu()) device_spans_.emplace(device, &diagnose::FlightRecorder::now_ns);
}

void StepTimeline::begin_step(int64_t step) {
  distributed::mark_step(group_, step);
  if (!timeline_) return;
  // What was marked before the steps that are wanted is not needed; clocks drift.
  if (begun_++ == options_.warm_up && device_spans_) device_spans_->restart();
  step_ = step;
  timeline_->begin_step(step);
}

void StepTimeline::batch_arrived() {
  if (device_spans_ && !step_on_device_)
    step_on_device_ = device_spans_->begin(kOnDevice, concat("step ", step_));
}

void StepTimeline::begin(diagnose::Phase phase) {
  if (timeline_) timeline_->begin(phase);
  if (!device_spans_) return;
  end_on_device(phase_on_device_);
  if (phase == diagnose::Phase::kDataWait)
    return;  // the device waits for nobody in the host's time
  phase_on_device_ = device_spans_->begin(kOnDevice, std::string(diagnose::name_of(phase)));
}

void StepTimeline::add(diagnose::Phase phase, double begin_s, double end_s) {
  const auto ns = [](double seconds) { return static_cast<int64_t>(seconds * 1e9); };
  if (timeline_) timeline_->add(phase, ns(begin_s), ns(end_s));
}

void StepTimeline::end_on_device(std::optional<size_t>& span) {
  if (span) device_spans_->end(*span);
  span.reset();
}

void StepTimeline::end() {
  if (timeline_) timeline_->end();
  end_on_device(phase_on_device_);
}

void StepTimeline::end_step() {
  end_on_device(phase_on_device_);
  end_on_device(step_on_device_);
  if (!timeline_ || written_) return;
  timeline_->end_step();
  if (!timeline_->is_recording()) write_once();
}

void StepTimeline::write_once() {
  if (timeline_ && !std::exchange(written_, true)) write();
}

void StepTimeline::write() {
  if (device_spans_) {
    std::vector<diagnose::Timeline::DeviceSpan> spans;
    for (tensor::DeviceSpans::Span& span : device_spans_->collect())
      spans.push_back({std::move(span.row), std::move(span.name), span.begin_ns, span.end_ns});
    timeline_->add_device_spans(std::move(spans));
  }
  const std::string own = timeline_->part();
  const std::vector<std::string> heads = group_.all_gather_text(timeline_->head());
  const at::Tensor size = at::full({1}, static_cast<int64_t>(own.size()), at::kLong);
  const at::Tensor sizes = group_.all_gather(size.to(group_.device())).cpu();
  if (group_.rank() != 0) return send(group_, own);
  int64_t start = std::numeric_limits<int64_t>::max();
  std::vector<diagnose::TimelineSummary> summaries;
  for (const std::string& head : heads) {
    start = std::min(start, diagnose::start_of_part(head));
    summaries.push_back(diagnose::summary_of_part(head));
  }
  TraceFile file(options_.file, start);
  file.add(own);
  for (int rank = 1; rank < group_.world_size(); ++rank)
    file.add(receive(group_, rank, sizes[rank][0].item<int64_t>()));
  file.close();
  if (!note_) return;
  note_(diagnose::sum_of(summaries).to_text() +
        (device_spans_ ? "; the host's time, the device's own is on its rows" : "") +
        (file.error().empty() ? "; trace in " + options_.file.string()
                              : "; the trace was not written: " + file.error()));
}

}  // namespace muster::train
