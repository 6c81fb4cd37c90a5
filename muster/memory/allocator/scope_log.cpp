#include "muster/memory/allocator/scope_log.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>

namespace muster::memory {
namespace {

class ScopeLog {
 public:
  void change(uint64_t sequence, uint32_t scope) {
    const std::lock_guard lock(mutex_);
    if (changes_ > 0 && at(changes_ - 1).first == sequence) {
      at(changes_ - 1).scope = scope;
      return;
    }
    if (ring_.size() < kMost) ring_.emplace_back();
    at(changes_++) = {sequence, scope};
  }

  std::optional<uint32_t> scope_of(uint64_t sequence) {
    const std::lock_guard lock(mutex_);
    uint64_t low = changes_ - ring_.size(), high = changes_;  // those that are kept
    const bool knows_the_first = low == 0;
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      if (at(middle).first <= sequence)
        low = middle + 1;
      else
        high = middle;
    }
    if (low > changes_ - ring_.size()) return at(low - 1).scope;
    return knows_the_first ? std::optional<uint32_t>(0) : std::nullopt;
  }

 private:
  struct Change {
    uint64_t first = 0;  // node that is made in it
    uint32_t scope = 0;
  };
  static constexpr size_t kMost = 4096;
  Change& at(uint64_t change) { return ring_[change % kMost]; }

  std::mutex mutex_;
  std::vector<Change> ring_;
  uint64_t changes_ = 0;
};

/// Never freed: threads end behind main.
struct ScopeLogs {
  static constexpr size_t kMostEnded = 64;
  std::mutex mutex;
  std::unordered_map<uint64_t, std::shared_ptr<ScopeLog>> by_thread;
  std::deque<uint64_t> ended;
};

ScopeLogs& scope_logs() {
  static auto* const logs = new ScopeLogs;
  return *logs;
}

/// This thread's, known to others from its first scope on.
class OwnLog {
 public:
  ~OwnLog() {
    is_gone = true;
    if (log_ == nullptr) return;
    ScopeLogs& all = scope_logs();
    const std::lock_guard lock(all.mutex);
    all.ended.push_back(thread_);
    if (all.ended.size() <= ScopeLogs::kMostEnded) return;
    all.by_thread.erase(all.ended.front());
    all.ended.pop_front();
  }
  OwnLog() = default;
  OwnLog(const OwnLog&) = delete;
  OwnLog& operator=(const OwnLog&) = delete;

  /// What a thread keeps may open scopes when its log is gone.
  static inline thread_local constinit bool is_gone = false;

  ScopeLog* get() const { return log_.get(); }
  ScopeLog& make() {
    if (log_ != nullptr) return *log_;
    thread_ = at::RecordFunction::currentThreadId();
    log_ = std::make_shared<ScopeLog>();
    ScopeLogs& all = scope_logs();
    const std::lock_guard lock(all.mutex);
    all.by_thread[thread_] = log_;
    return *log_;
  }

 private:
  uint64_t thread_ = 0;
  std::shared_ptr<ScopeLog> log_;
};

thread_local OwnLog own_log;

std::shared_ptr<ScopeLog> log_of_another(uint64_t thread) {
  ScopeLogs& all = scope_logs();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_thread.find(thread);
  return found == all.by_thread.end() ? nullptr : found->second;
}

}  // namespace

void note_scope_change(uint32_t scope) {
  if (!OwnLog::is_gone) own_log.make().change(at::sequence_number::peek(), scope);
}

std::optional<uint32_t> scope_of_node(uint64_t thread, uint64_t sequence) {
  if (thread == at::RecordFunction::currentThreadId()) {
    if (OwnLog::is_gone) return std::nullopt;
    return own_log.get() == nullptr ? 0 : own_log.get()->scope_of(sequence);
  }
  const std::shared_ptr<ScopeLog> log = log_of_another(thread);
  return log == nullptr ? 0 : log->scope_of(sequence);
}

}  // namespace muster::memory
