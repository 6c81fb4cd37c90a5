#include "muster/tune/run/thinking.h"

#include <chrono>
#include <utility>

namespace muster::tune {
namespace {

constexpr std::chrono::milliseconds kQuick{2};

}  // namespace

Thinker::~Thinker() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool Thinker::begin(std::function<void()> think) {
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !think_; });  // who has thought may not have said so yet
  think_ = std::move(think);
  changed_.notify_all();
  return changed_.wait_for(lock, kQuick, [&] { return !think_; });
}

bool Thinker::is_busy() const {
  const std::lock_guard lock(mutex_);
  return think_ != nullptr;
}

void Thinker::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return think_ || ends_; });
    if (!think_) return;
    const auto think = think_;
    lock.unlock();
    think();
    lock.lock();
    think_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace muster::tune
