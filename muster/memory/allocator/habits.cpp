#include "muster/memory/allocator/habits.h"

#include <array>
#include <atomic>
#include <unordered_map>

#include "muster/diagnose/record/op_record.h"
#include "muster/memory/allocator/cpu_state.h"

namespace muster::memory {
namespace {

std::atomic<bool> misleading{false};

uint64_t mixed(uint64_t hash, uint64_t value) { return diagnose::mix64(hash ^ value); }

/// Of one thread.
class Habits {
 public:
  ~Habits() { is_gone = true; }
  Habits() = default;
  Habits(const Habits&) = delete;
  Habits& operator=(const Habits&) = delete;

  void follow(uint64_t allocation) {
    key_ = mixed(mixed(mixed(mixed(0, before_[0]), before_[1]), before_[2]), allocation);
    before_ = {before_[1], before_[2], allocation};
  }
  Habit* find() {
    const auto found = known_.find(key_);
    return found == known_.end() ? nullptr : &found->second;
  }
  void learn(const Habit& habit) {
    if (known_.size() >= kMost) known_.clear();
    const auto [found, is_new] = known_.emplace(key_, habit);
    Habit& known = found->second;
    if (is_new || (!known.is_sure && !habit.is_sure)) return;
    if (!known.is_sure) known = habit;
    if (!habit.is_sure) return;
    if (known.op != habit.op) known.op = 0;
    if (known.builds_graph != habit.builds_graph) misleading.store(true, kRelaxed);
  }

  void forget() { known_.clear(); }

  /// The allocations of a thread that ends go on when its habits are gone.
  static inline thread_local constinit bool is_gone = false;

 private:
  static constexpr size_t kMost = size_t{1} << 16;
  std::array<uint64_t, 3> before_{};
  uint64_t key_ = 0;
  std::unordered_map<uint64_t, Habit> known_;
};

thread_local Habits own_habits;

}  // namespace

void follow_habit(int64_t bytes, uint32_t scope, bool inside) {
  if (Habits::is_gone) return;
  own_habits.follow(mixed(uint64_t{scope} << 1 | (inside ? 1 : 0), static_cast<uint64_t>(bytes)));
}

void learn_habit(const Habit& habit) {
  if (!Habits::is_gone) own_habits.learn(habit);
}

Habit known_habit(const Habit& otherwise) {
  if (const Habit* known = Habits::is_gone ? nullptr : own_habits.find()) return *known;
  miss_names();
  return otherwise;
}

bool misses_names() { return cpu_memory().names_are_missing.load(kRelaxed); }

bool habits_mislead() { return misleading.load(kRelaxed); }

void forget_habits() {
  if (!Habits::is_gone) own_habits.forget();
  misleading.store(false, kRelaxed);
}

}  // namespace muster::memory
