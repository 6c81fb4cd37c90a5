// Whoever misses a letter of a step waits for no other one of it: all come to the step's end together.
#include <chrono>
#include <latch>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/distributed/process_group.h"
#include "muster/parallel/pipeline_ranks/group_carrier.h"
#include "muster/parallel/pipeline_ranks/tensor_post.h"
#include "muster/pipeline/order/lower.h"
#include "muster/pipeline/schedule/schedule.h"

#include "tests/support/error_of.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using parallel::TensorPost;

constexpr int kGradient = 3;  // from stage 1, the tag of its letters
constexpr int kNever = 9;     // one that nobody sends under

TEST(LateLetter, IsTheLastOneOfItsStepThatIsWaitedFor) {
  const auto lists =
      pipeline::lower(pipeline::make_schedule("1f1b", {2, 2, 1}).lists, pipeline::Sends::kBuffered);
  std::latch is_sent(1), is_seen(1);
  distributed::ThreadWorld(2).run([&](const ProcessGroup& group) {
    TensorPost post(group, std::chrono::milliseconds(50));
    post.begin(1);
    if (group.rank() == 1) {
      post.send(0, kGradient, {{torch::ones({2})}, {false}});
      is_sent.count_down();
      return is_seen.wait();
    }
    is_sent.wait();
    EXPECT_FALSE(post.is_late());
    EXPECT_THAT(test::error_of([&] { post.await(1, kNever); }), ::testing::HasSubstr("50 ms"));
    EXPECT_TRUE(post.is_late());
    parallel::GroupCarrier(post, lists.placement).give_up(lists.ranks[0], 0);
    EXPECT_TRUE(post.await(1, kGradient));  // it lies there still
    post.discard_found();
    post.begin(2);
    EXPECT_FALSE(post.is_late());
    is_seen.count_down();
  });
}

}  // namespace
}  // namespace muster
