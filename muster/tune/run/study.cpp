#include "muster/tune/run/study.h"

#include <chrono>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <string>

#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::tune {

namespace {

void append(std::vector<Event>& to, std::vector<Event> more) {
  if (to.empty()) {
    to = std::move(more);
  } else {
    to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
}

/// The point that has these values; nothing if they are not a whole point of the space, as those of
/// another Optuna program need not be.
std::optional<Point> full_point(const Space& space,
                                const std::map<std::string, Value>& values) try {
  Point point = space.point_of(values);
  const Point drawn = space.with_conditions(space.draw(point, 0, 0));
  for (size_t d = 0; d < point.size(); ++d) {
    if (std::isnan(point[d]) && !std::isnan(drawn[d])) return std::nullopt;
  }
  return space.with_conditions(std::move(point));
} catch (const Error&) {
  return std::nullopt;
}

}  // namespace

/// Calls that come in while a batch is being written fill the next one, which one of them writes;
/// the others sleep until it is stored, each woken once.
struct Study::Batch {
  std::vector<Event> events;
  bool stored = false;
  std::exception_ptr error;      // why it could not be stored; its events are in the next batch
  std::condition_variable turn;  // stored, failed, or one of those that wait is to write it
};

double wall_clock_s() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

Study::Study(const StudySpec& spec, Clock clock, EventObserver observer)
    : clock_(std::move(clock)),
      observer_(std::move(observer)),
      core_(spec),
      open_(std::make_shared<Batch>()) {
  if (spec.storage.empty()) return;
  tuner_lock_ = std::make_unique<TunerLock>(spec.storage, spec.name);
  storage_ = open_storage(spec.storage, spec.space, core_.describe(), {.durable = spec.durable});
  for (const Event& event : storage_->events()) {
    core_.replay(event);
    ++resumed_events_;
  }
  apply([&](StudyCore& core, double now_s) {
    core.recover(now_s);
    const int64_t told = tell_outside_trials(now_s);
    core.note(concat(resumed_events_ > 0 ? "resumed" : "started",
                     " by process ",
                     ::getpid(),
                     told > 0 ? concat("; told the searcher of ", told, " trials by Optuna") : ""),
              now_s);
  });
}

/// Tells the searcher of what Optuna has finished in the file. Returns how many trials that were.
int64_t Study::tell_outside_trials(double now_s) {
  int64_t told = 0;
  for (const ForeignTrial& trial : storage_->foreign_trials()) {
    if (!is_over(trial.state)) continue;
    const auto point = full_point(core_.spec().space, trial.params);
    if (!point) continue;
    told += core_.learn({.number = trial.number,
                         .point = *point,
                         .state = trial.state,
                         .metric = trial.value,
                         .step = trial.intermediate.empty() ? 0 : trial.intermediate.back().first},
                        now_s);
  }
  return told;
}

Study::~Study() = default;

/// Returns when the events of the call are stored, by this thread or by another that stores them
/// with its own.
void Study::store(std::unique_lock<std::mutex>& lock) {
  if (!storage_) {
    if (observer_) {
      observer_(core_, core_.take_events());
    } else {
      core_.discard_events();
    }
    return;
  }
  std::vector<Event> events = core_.take_events();
  const std::shared_ptr<Batch> mine = open_;
  if (events.empty() && mine->events.empty()) return;
  append(mine->events, std::move(events));
  while (!mine->stored) {
    if (mine->error) std::rethrow_exception(mine->error);
    if (writing_) {
      mine->turn.wait(lock);
    } else {
      write_open_batch(lock);
    }
  }
}

void Study::write_open_batch(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Batch> batch = std::exchange(open_, std::make_shared<Batch>());
  writing_ = true;
  lock.unlock();
  std::exception_ptr error;
  try {
    storage_->append(batch->events);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  writing_ = false;
  if (error) {
    batch->error = error;
    append(batch->events, std::move(open_->events));
    open_->events = std::move(batch->events);
  } else {
    batch->stored = true;
  }
  batch->turn.notify_all();
  open_->turn.notify_one();
  if (batch->stored && observer_) observer_(core_, batch->events);
}

}  // namespace muster::tune
