// Waiting on a word of shared memory, between processes.
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace muster::distributed {

/// Sleeps while `word` is `expected`, until woken, for at most `limit`. May return early.
inline void futex_wait(const std::atomic<uint32_t>& word,
                       uint32_t expected,
                       std::chrono::nanoseconds limit) {
  static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free);
  const timespec time{static_cast<time_t>(limit.count() / 1'000'000'000),
                      static_cast<long>(limit.count() % 1'000'000'000)};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &time, nullptr, 0);
}

inline void futex_wake_all(const std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 0x7fffffff, nullptr, nullptr, 0);
}

/// One turn of a spin loop.
inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Looks at `done` again and again for at most `budget`. True if it came true.
template <class Done>
bool spin_until(const Done& done, std::chrono::nanoseconds budget) {
  if (done()) return true;
  if (budget.count() <= 0) return false;
  const auto until = std::chrono::steady_clock::now() + budget;
  do {
    for (int i = 0; i < 32; ++i) {
      spin_pause();
      if (done()) return true;
    }
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

}  // namespace muster::distributed
