#include "muster/memory/allocator/scope_meter.h"

#include <thread>

#include <gtest/gtest.h>

#include "muster/memory/allocator/names.h"
#include "muster/memory/allocator/scope.h"

namespace muster::memory {
namespace {

/// A meter of one number.
struct Metered {
  Metered() {
    start_scope_meter([this] { return GaugeBytes{bytes}; });
  }
  ~Metered() { stop_scope_meter(); }
  Metered(const Metered&) = delete;
  Metered& operator=(const Metered&) = delete;

  int64_t in(const char* path) const { return scope_changes()[name_id(path)][0]; }

  int64_t bytes = 1000;
};

TEST(ScopeMeter, WhatChangesIsTheInnermostScopes) {
  Metered metered;
  {
    const Scope outer("metered_outer");
    metered.bytes += 5;
    {
      const Scope inner("inner");
      metered.bytes += 70;
    }
    metered.bytes -= 2;
  }
  EXPECT_EQ(metered.in("metered_outer"), 3);
  EXPECT_EQ(metered.in("metered_outer/inner"), 70);
}

TEST(ScopeMeter, ScopesOfOtherThreadsAreNotMetered) {
  Metered metered;
  const Scope scope("metered_here");
  std::thread([&metered] {
    const Scope there("metered_there");
    metered.bytes += 9;
  }).join();
  EXPECT_EQ(metered.in("metered_there"), 0);
  EXPECT_EQ(metered.in("metered_here"), 9);
}

TEST(ScopeMeter, WhatIsLeftOpenIsCountedUpToNow) {
  Metered metered;
  const Scope scope("metered_open");
  metered.bytes += 4;
  EXPECT_EQ(metered.in("metered_open"), 4);
  metered.bytes += 4;
  EXPECT_EQ(metered.in("metered_open"), 8);
}

}  // namespace
}  // namespace muster::memory
