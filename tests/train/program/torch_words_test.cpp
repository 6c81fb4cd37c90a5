// Errors of libraries in a user's words.
#include "muster/train/program/torch_words.h"

#include <functional>
#include <new>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace muster::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string words_of(const std::function<void()>& throws) {
  return test::error_of([&] {
    in_torch_words([&] {
      throws();
      return 0;
    });
  });
}

TEST(TorchWords, MemoryThatTheHostDoesNotHaveIsCalledSo) {
  EXPECT_THAT(words_of([] { throw std::bad_alloc(); }),
              AllOf(HasSubstr("the host's memory: no room is left in it (std::bad_alloc)"),
                    HasSubstr("hint: take a smaller batch")));
  EXPECT_THAT(
      words_of([] { TORCH_CHECK(false, "DefaultCPUAllocator: can't allocate memory"); }),
      AllOf(HasSubstr("LibTorch: DefaultCPUAllocator"), HasSubstr("hint: take a smaller batch")));
  EXPECT_THAT(words_of([] { TORCH_CHECK(false, "shapes differ"); }),
              AllOf(HasSubstr("LibTorch: shapes differ"), Not(HasSubstr("hint"))));
}

}  // namespace
}  // namespace muster::train
