#include "muster/memory/allocator/release.h"

#include <vector>

#include "muster/memory/allocator/cpu_memory.h"
#include "muster/memory/allocator/scope.h"

namespace muster::memory {
namespace {

constexpr int64_t kBytes = 40000;

at::Tensor numbers() { return torch::ones({kBytes / 4}); }

TEST(Release, FreesWhatNobodyElseHolds) {
  const Recording recording(Level::kTags);
  at::Tensor a = numbers(), b = numbers();
  const int64_t before = cpu_counters().current;
  const Released released = release(a, b);
  EXPECT_FALSE(a.defined());
  EXPECT_FALSE(b.defined());
  EXPECT_EQ(released.freed_bytes, 2 * kBytes);
  EXPECT_EQ(released.cpu_freed_bytes, 2 * kBytes);
  EXPECT_EQ(before - cpu_counters().current, 2 * kBytes);
  EXPECT_TRUE(released.held.empty());
  EXPECT_EQ(released.text(), "freed 78 KiB");
}

TEST(Release, SaysHowManyHandlesAndWhoMadeWhatIsHeld) {
  const Recording recording(Level::kTags);
  set_memory_iteration(4);
  at::Tensor kept;
  {
    const Scope scope("encoder");
    kept = numbers();
  }
  const std::vector<at::Tensor> list{kept, kept};
  const Released released = release(kept);
  EXPECT_EQ(released.freed_bytes, 0);
  ASSERT_EQ(released.held.size(), 1U);
  EXPECT_EQ(released.held[0].bytes, kBytes);
  EXPECT_EQ(released.held[0].handles, 2);
  EXPECT_EQ(released.held[0].scope, "encoder");
  EXPECT_EQ(released.held[0].op, "aten::ones");
  EXPECT_EQ(released.held[0].iteration, 4U);
  EXPECT_NE(released.text().find("2 other handles, made in scope \"encoder\" by aten::ones"),
            std::string::npos)
      << released.text();
}

TEST(Release, AViewKeepsTheMemoryWithoutAHandleOfTheTensor) {
  at::Tensor whole = numbers();
  const at::Tensor part = whole.narrow(0, 0, 1).detach();
  const Released released = release(whole);
  ASSERT_EQ(released.held.size(), 1U);
  EXPECT_EQ(released.held[0].bytes, kBytes);
  EXPECT_EQ(released.held[0].handles, 0);
  EXPECT_EQ(released.held[0].sharers, 1);
}

TEST(Release, AGraphThatSavedATensorHoldsIt) {
  at::Tensor input = numbers();
  const at::Tensor weight = torch::ones({kBytes / 4}, torch::requires_grad());
  at::Tensor product = input * weight;  // saves both
  const Released released = release(input);
  ASSERT_EQ(released.held.size(), 1U);
  EXPECT_GT(released.held[0].sharers, 0);
  EXPECT_EQ(release(product).freed_bytes, kBytes);
}

TEST(Release, ReleasesAListWhoseMemoryIsSharedOnce) {
  at::Tensor whole = numbers();
  std::vector<at::Tensor> list{whole, whole.view({-1, 4}), whole.detach()};
  whole = at::Tensor();
  const Released released = release(list);
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(released.freed_bytes, kBytes);
  EXPECT_TRUE(released.held.empty());
}

TEST(Release, UndefinedTensorsAreNothing) {
  at::Tensor nothing;
  EXPECT_EQ(release(nothing).freed_bytes, 0);
}

}  // namespace
}  // namespace muster::memory
