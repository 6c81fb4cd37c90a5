// Processes that end before their first, second, … change to a folder.
#pragma once

#include <filesystem>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/base/text.h"

#include "tests/support/folder.h"

namespace muster::test {

/// Of this process's calls that change a folder (rename, link, unlink, mkdir), the one before which
/// it ends; -1: none. folders_test.cpp counts them.
extern int calls_left;

/// Runs `work` in a process that ends before its change number `changes`. Whether it came through.
template <class Work>
bool comes_through(int changes, Work work) {
  const pid_t child = ::fork();
  if (child == 0) {
    calls_left = changes;
    work();
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Runs `prepare` in processes that end before their first, second, … change, until one of them
/// comes through. After each, what is there is given to `look`.
template <class Make, class Prepare, class Look>
void kill_at_each_change(Make make, Prepare prepare, Look look) {
  int kills = 0;
  for (bool through = false; !through; ++kills) {
    const Folder place;
    make(place.path());
    through = comes_through(kills, [&] { prepare(place.path()); });
    if (::testing::Test::HasFailure()) return;
    SCOPED_TRACE(concat("killed before change ", kills));
    look(place.path());
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GE(kills, 3);
}

}  // namespace muster::test
