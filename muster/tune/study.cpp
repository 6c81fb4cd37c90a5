#include "muster/tune/study.h"

#include <chrono>
#include <iterator>

#include <unistd.h>

#include "muster/base/text.h"

namespace muster::tune {

double wall_clock_s() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

Study::Study(const StudySpec& spec, Clock clock, EventObserver observer)
    : clock_(std::move(clock)), observer_(std::move(observer)), core_(spec) {
  if (spec.storage.empty()) return;
  tuner_lock_ = std::make_unique<TunerLock>(spec.storage, spec.name);
  storage_ = open_storage(spec.storage, spec.space, core_.describe(), {.durable = spec.durable});
  for (const Event& event : storage_->events()) {
    core_.replay(event);
    ++resumed_events_;
  }
  apply([&](StudyCore& core, double now_s) {
    core.recover(now_s);
    core.note(concat(resumed_events_ > 0 ? "resumed" : "started", " by process ", ::getpid()),
              now_s);
  });
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
  if (events.empty() && queue_.empty()) return;
  queue_.insert(
      queue_.end(), std::make_move_iterator(events.begin()), std::make_move_iterator(events.end()));
  const uint64_t mine = ++queued_;
  while (stored_ < mine) {
    if (writing_) {
      written_.wait(lock);
    } else {
      write_queued(lock);
    }
  }
}

void Study::write_queued(std::unique_lock<std::mutex>& lock) {
  std::vector<Event> batch = std::exchange(queue_, {});
  const uint64_t up_to = queued_;
  writing_ = true;
  lock.unlock();
  std::exception_ptr error;
  try {
    storage_->append(batch);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  writing_ = false;
  written_.notify_all();
  if (error) {  // those that wait try it themselves, and hear the same
    queue_.insert(queue_.begin(),
                  std::make_move_iterator(batch.begin()),
                  std::make_move_iterator(batch.end()));
    std::rethrow_exception(error);
  }
  stored_ = up_to;
  if (observer_) observer_(core_, batch);
}

}  // namespace muster::tune
