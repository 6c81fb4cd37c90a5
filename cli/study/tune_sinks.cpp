#include "cli/study/tune_sinks.h"

#include <span>
#include <utility>

#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/host.h"
#include "muster/base/text.h"
#include "muster/tune/storage/storage.h"
#include "muster/tune/views/history.h"

namespace muster::cli {

TuneSinks::TuneSinks(const tune::StudySpec& spec, Note note) : note_(std::move(note)) {
  if (!spec.ray_files && !spec.tensorboard) return;
  if (spec.ray_files) {
    ray_ = std::make_unique<tune::RayFiles>(
        spec.trial_folder / "ray",
        facts_of(spec),
        tune::RayHost{.hostname = host_name(), .node_ip = "127.0.0.1", .pid = ::getpid()});
  }
  if (spec.tensorboard) {
    tensorboard_ = std::make_unique<tune::TensorBoardTrials>(spec.trial_folder / "tensorboard",
                                                             facts_of(spec));
  }
  tune::read_events(spec.storage, spec.name, [&](std::span<const tune::Event> past) {
    taken_ = past.back().id;
    if (ray_) ray_->on_events(past);
    if (tensorboard_) tensorboard_->on_events(past, /*past=*/true);
  });
  if (tensorboard_) tensorboard_->go_on();
}

void TuneSinks::on_events(std::span<const tune::Event> events) {
  while (!events.empty() && events.front().id <= taken_) events = events.subspan(1);
  if (events.empty()) return;
  taken_ = events.back().id;
  give(ray_, events, "Ray's files", "ray");
  give(tensorboard_, events, "TensorBoard's events", "tensorboard");
}

template <class Sink>
void TuneSinks::give(std::unique_ptr<Sink>& sink,
                     std::span<const tune::Event> events,
                     const char* what,
                     const char* format) {
  if (!sink) return;
  try {
    sink->on_events(events);
  } catch (const Error& error) {
    sink.reset();
    note_(concat(what,
                 " end here: ",
                 error.what(),
                 "\nhint: the study goes on; afterwards `muster study export --format ",
                 format,
                 "` writes them"));
  }
}

}  // namespace muster::cli
