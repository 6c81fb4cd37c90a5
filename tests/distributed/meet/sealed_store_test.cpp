#include "muster/distributed/meet/sealed_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "muster/base/error.h"

#include "tests/support/error_of.h"

namespace muster::distributed {
namespace {

using ::testing::HasSubstr;

/// A job's store, and a stranger's view of it.
struct Stores {
  c10::intrusive_ptr<c10d::Store> open = c10::make_intrusive<c10d::HashStore>();
  JobKey key = JobKey::make();
  c10::intrusive_ptr<SealedStore> ours = c10::make_intrusive<SealedStore>(open, key);
  c10::intrusive_ptr<SealedStore> peers = c10::make_intrusive<SealedStore>(open, key);
};

TEST(SealedStore, HoldsWhatAPeerWrote) {
  const Stores s;
  s.ours->set("a", std::string("one"));
  EXPECT_EQ(s.peers->get_to_str("a"), "one");
  EXPECT_EQ(s.peers->clone()->get_to_str("a"), "one");
  s.ours->multiSet({"b", "c"}, {{1, 2}, {}});
  EXPECT_EQ(s.peers->multiGet({"b", "c"}), (std::vector<std::vector<uint8_t>>{{1, 2}, {}}));
  EXPECT_EQ(s.ours->add("n", 2), 2);
  EXPECT_EQ(s.peers->add("n", 1), 3);
}

TEST(SealedStore, ComparesAndSetsAsTheStoreBelow) {
  const Stores s;
  EXPECT_EQ(s.ours->compareSet("v", std::string(), std::string("first")), "first");
  EXPECT_EQ(s.peers->compareSet("v", std::string(), std::string("second")), "first");
  EXPECT_EQ(s.peers->compareSet("v", std::string("first"), std::string("third")), "third");
  EXPECT_EQ(s.ours->compareSet("absent", std::string(), std::string()), "");
}

TEST(SealedStore, BelievesNobodyWithoutTheKey) {
  const Stores s;
  s.open->set("verdict", std::string("rank 1 is gone"));
  EXPECT_EQ(s.ours->compareSet("verdict", std::string(), std::string()), "");
  EXPECT_THAT(test::muster_error_of([&] { s.ours->get("verdict"); }).what(),
              HasSubstr("what the job's store holds under verdict: each rank signs"));
  c10::make_intrusive<SealedStore>(s.open, JobKey::make())->set("verdict", std::string("x"));
  EXPECT_EQ(s.ours->compareSet("verdict", std::string(), std::string()), "");
  s.open->set("short", std::string("1234567"));
  EXPECT_EQ(s.ours->compareSet("short", std::string(), std::string()), "");
}

TEST(SealedStore, KeepsAValueUnderTheNameItWasWrittenFor) {
  const Stores s;
  s.ours->set("state/1", std::string("all is well"));
  const std::vector<uint8_t> sealed = s.open->get("state/1");
  s.open->set("state/2", sealed);
  EXPECT_EQ(s.ours->compareSet("state/2", std::string(), std::string()), "");
  // Nor under one that only looks alike when both are written one behind the other.
  s.open->set("state/1a", std::vector<uint8_t>(sealed.begin() + 1, sealed.end()));
  EXPECT_EQ(s.ours->compareSet("state/1a", std::string(), std::string()), "");
}

}  // namespace
}  // namespace muster::distributed
