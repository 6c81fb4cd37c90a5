#include "muster/distributed/call/op_queue.h"

#include <algorithm>
#include <utility>

namespace muster::distributed {

OpQueue::OpQueue(std::function<std::string()> missing) : missing_(std::move(missing)) {}

void OpQueue::submit(const PendingWorkPtr& work, std::function<void()> run, bool now) {
  std::unique_lock lock(mutex_);
  if (closed_) {
    lock.unlock();
    work->fail("the group was destroyed");
    return;
  }
  items_.push_back({work, std::move(run)});
  if (now && !busy_ && items_.size() == 1) return run_next(lock);
  // The thread holds the queue: a future's callback on it may drop the group's last handle.
  if (!thread_.joinable()) thread_ = std::thread([self = shared_from_this()] { self->serve(); });
  lock.unlock();
  changed_.notify_one();
  if (!now) return;
  try {
    work->wait();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): whoever waits gets it
  }
}

/// With the lock held and not busy; holds it again afterwards.
void OpQueue::run_next(std::unique_lock<std::mutex>& lock) {
  Item item = std::move(items_.front());
  items_.pop_front();
  busy_ = true;
  runner_ = std::this_thread::get_id();
  lock.unlock();
  std::exception_ptr error;
  try {
    item.run();
  } catch (...) {
    error = std::current_exception();
  }
  item.run = nullptr;
  // Free for others before the callbacks of the future run, which may issue operations.
  lock.lock();
  busy_ = false;
  runner_ = {};
  const bool more = !items_.empty() || closed_;
  lock.unlock();
  if (more) changed_.notify_all();
  PendingWork::end_for_another(std::move(item.work), error);
  lock.lock();
}

void OpQueue::help(PendingWork& work,
                   std::optional<std::chrono::steady_clock::time_point> deadline) {
  if (deadline) return;  // an operation that was begun cannot be left again
  std::unique_lock lock(mutex_);
  const auto queued = [&] {
    return std::any_of(
        items_.begin(), items_.end(), [&](const Item& item) { return item.work.get() == &work; });
  };
  while (!busy_ && queued()) run_next(lock);
}

void OpQueue::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closed_ || (!items_.empty() && !busy_); });
    if (closed_) return;
    run_next(lock);
  }
}

void OpQueue::close(const std::string& reason) {
  std::deque<Item> left;
  std::thread thread;
  {
    std::unique_lock lock(mutex_);
    closed_ = true;
    left.swap(items_);
    thread.swap(thread_);
    changed_.notify_all();
    changed_.wait(lock, [&] { return !busy_ || runner_ == std::this_thread::get_id(); });
  }
  for (const Item& item : left) item.work->fail(reason);
  if (!thread.joinable()) return;
  if (thread.get_id() == std::this_thread::get_id()) {
    thread.detach();  // it ends as soon as it is back in `serve`, and owns the queue until then
  } else {
    thread.join();
  }
}

}  // namespace muster::distributed
