#include "muster/train/step_timeline.h"

#include <utility>
#include <vector>

#include "muster/base/file.h"
#include "muster/base/text.h"

namespace muster::train {

StepTimeline::StepTimeline(TraceOptions options,
                           parallel::ProcessGroup group,
                           std::function<void(const std::string&)> note)
    : options_(std::move(options)), group_(std::move(group)), note_(std::move(note)) {
  if (options_.file.empty()) return;
  timeline_.emplace(parallel::TimelineOptions{.rank = group_.rank(),
                                              .steps = options_.steps,
                                              .recorder = parallel::flight_recorder(group_)});
}

void StepTimeline::begin_step(int64_t step) {
  parallel::mark_step(group_, step);
  if (timeline_) timeline_->begin_step(step);
}

void StepTimeline::begin(parallel::Phase phase) {
  if (timeline_) timeline_->begin(phase);
}

void StepTimeline::end() {
  if (timeline_) timeline_->end();
}

void StepTimeline::end_step() {
  if (!timeline_) return;
  timeline_->end_step();
  if (!timeline_->is_recording()) finish();
}

void StepTimeline::finish() {
  if (timeline_ && !std::exchange(written_, true)) write();
}

void StepTimeline::write() {
  const std::vector<std::string> parts = group_.all_gather_text(timeline_->part());
  if (group_.rank() != 0) return;
  write_file_atomic(options_.file, parallel::chrome_trace(parts));
  std::vector<parallel::TimelineSummary> summaries;
  for (const std::string& part : parts) summaries.push_back(parallel::summary_of_part(part));
  if (note_)
    note_(concat(parallel::sum_of(summaries).to_text(), "; trace in ", options_.file.string()));
}

}  // namespace muster::train
