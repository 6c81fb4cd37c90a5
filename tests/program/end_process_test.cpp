#include "muster/program/end_process.h"

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace muster::program {
namespace {

using ::testing::ExitedWithCode;
using ::testing::HasSubstr;

constexpr const char* kLoaders[] = {"LD_PRELOAD", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"};

/// Ends with 3 by end_process(), or with 7 if what was left for std::exit runs.
[[noreturn]] void end_with_statics() {
  std::atexit([] { ::_exit(7); });
  end_process(3);
}

TEST(EndProcess, LeavesStaticsAlone) {
  if (kIsSanitized) GTEST_SKIP() << "leaks and threads are looked for at exit";
  for (const char* loader : kLoaders) ::unsetenv(loader);
  EXPECT_EXIT(end_with_statics(), ExitedWithCode(3), "");
}

TEST(EndProcess, ExitsWhereAToolWaitsForThat) {
  for (const char* loader : kLoaders) {
    EXPECT_EXIT(
        {
          for (const char* other : kLoaders) ::unsetenv(other);
          ::setenv(loader, "libtool.so", 1);
          end_with_statics();
        },
        ExitedWithCode(7),
        "")
        << loader;
  }
}

TEST(EndProcess, WritesWhatWasSaid) {
  // To stderr, which the test reads, through a buffer as a pipe has it.
  EXPECT_EXIT(
      {
        static char buffer[BUFSIZ];
        std::setvbuf(stderr, buffer, _IOFBF, sizeof buffer);
        std::fputs("by C,", stderr);
        std::clog << "by C++";
        end_process(0);
      },
      ExitedWithCode(0),
      HasSubstr("by C,by C++"));
}

/// glibc's fflush(nullptr) would.
TEST(EndProcess, WaitsForNoThreadThatReads) {
  if (kIsSanitized) GTEST_SKIP() << "ends by std::exit";
  EXPECT_EXIT(
      {
        int ends[2];
        if (::pipe(ends) != 0 || ::dup2(ends[0], STDIN_FILENO) < 0) ::_exit(8);
        ::alarm(60);
        std::thread reader([] { std::fgetc(stdin); });
        reader.detach();
        while (::ftrylockfile(stdin) == 0) {
          ::funlockfile(stdin);
          std::this_thread::yield();
        }
        for (const char* loader : kLoaders) ::unsetenv(loader);
        end_process(3);
      },
      ExitedWithCode(3),
      "");
}

}  // namespace
}  // namespace muster::program
