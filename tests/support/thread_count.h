// How many threads this process has.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <thread>

#include <gtest/gtest.h>

namespace muster::test {

inline int64_t thread_count() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

/// Once they are that few; a thread that was joined may be listed a moment longer.
inline void expect_at_most_threads(int64_t most) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (thread_count() > most && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  EXPECT_LE(thread_count(), most);
}

}  // namespace muster::test
