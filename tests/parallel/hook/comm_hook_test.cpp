// What is known of a hook before there is one.
#include "muster/parallel/hook/comm_hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace muster::parallel {
namespace {

// A spec may have an empty list of parameters.
TEST(CommHookEntries, SayWhichOfThemIsNone) {
  // A hook asks its group nothing before the first bucket.
  const distributed::ProcessGroup group(nullptr);
  for (const CommHookEntry* entry : comm_hooks()) {
    for (const std::string end : {"", ":"}) {
      const std::string spec = std::string(entry->name) + end;
      EXPECT_EQ(has_comm_hook(spec), make_comm_hook(spec, group) != nullptr) << spec;
    }
  }
  EXPECT_FALSE(has_comm_hook("none"));
  EXPECT_THAT(test::refusal_of([] { has_comm_hook("fp61"); }),
              ::testing::HasSubstr("did you mean \"fp16\"?"));
}

}  // namespace
}  // namespace muster::parallel
