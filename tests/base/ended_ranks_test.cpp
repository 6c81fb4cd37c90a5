#include "muster/base/ended_ranks.h"

#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/folder.h"

namespace muster {
namespace {

TEST(EndedRanks, AreThoseWhoseMarkIsThereForTheirJob) {
  const test::Folder folder;
  ::unsetenv(std::string(kEndedRanksEnv).c_str());
  EXPECT_FALSE(has_ended(29500, 1));
  ::setenv(std::string(kEndedRanksEnv).c_str(), folder.path().c_str(), 1);
  EXPECT_FALSE(has_ended(29500, 1));
  std::ofstream(ended_mark(folder.path(), 29500, 1)).close();
  EXPECT_TRUE(has_ended(29500, 1));
  EXPECT_FALSE(has_ended(29500, 11));
  EXPECT_FALSE(has_ended(29501, 1));  // of a job that a rank has started
  ::unsetenv(std::string(kEndedRanksEnv).c_str());
}

}  // namespace
}  // namespace muster
