// gloo compares nothing: it computes nonsense or ends the process when ranks call different things.
// Here they are told before that, each with both calls; and what gloo does not know at all is
// refused without harm to the group.
#include <chrono>
#include <functional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/distributed/process_group.h"
#include "muster/testing/run_ranks.h"

#include "tests/support/error_of.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using test::error_of;
using ::testing::AnyOf;
using ::testing::HasSubstr;

/// What rank 1 of three calls as its second operation, and what the other two do.
struct Mismatch {
  std::string name;
  std::function<void(const ProcessGroup&)> odd, usual;
  std::string odd_text, usual_text;
};

void PrintTo(const Mismatch& mismatch, std::ostream* out) { *out << mismatch.name; }

void reduce(const ProcessGroup& group,
            at::IntArrayRef sizes,
            at::ScalarType dtype = torch::kFloat,
            c10d::ReduceOp::RedOpType op = c10d::ReduceOp::SUM) {
  group.all_reduce(torch::ones(sizes, dtype), op);
}

std::vector<Mismatch> mismatches() {
  const auto sum = [](const ProcessGroup& group) { reduce(group, {8}); };
  const std::string sum_text = "all_reduce sum float32[8] #1";
  const auto from = [](int root) {
    return [root](const ProcessGroup& group) { group.broadcast(torch::ones({4}), root); };
  };
  return {
      {"size", [](auto& g) { reduce(g, {12}); }, sum, "all_reduce sum float32[12] #1", sum_text},
      {"dtype",
       [](auto& g) { reduce(g, {8}, torch::kInt); },
       sum,
       "all_reduce sum int32[8] #1",
       sum_text},
      {"reduction",
       [](auto& g) { reduce(g, {8}, torch::kFloat, c10d::ReduceOp::MAX); },
       sum,
       "all_reduce max float32[8] #1",
       sum_text},
      {"operation", from(0), sum, "broadcast root 0 float32[4] #1", sum_text},
      {"root",
       from(1),
       from(0),
       "broadcast root 1 float32[4] #1",
       "broadcast root 0 float32[4] #1"},
      {"barrier", [](auto& g) { g.barrier(); }, sum, "barrier #1", sum_text},
      {"gathered_size",
       [](auto& g) { g.all_gather(torch::ones({4})); },
       [](auto& g) { g.all_gather(torch::ones({3})); },
       "all_gather float32[4] #1",
       "all_gather float32[3] #1"}};
}

class MismatchOverGloo : public ::testing::TestWithParam<Mismatch> {};

TEST_P(MismatchOverGloo, IsToldToEachRankWithBothCalls) {
  const auto errors =
      testing::rank_errors(3,
                           [](ProcessGroup group) {
                             reduce(group, {1000});
                             (group.rank() == 1 ? GetParam().odd : GetParam().usual)(group);
                             // Where gloo took it: behind it, what was called is compared.
                             for (int i = 0; i < 12'000; ++i) {
                               std::this_thread::sleep_for(std::chrono::milliseconds(5));
                               reduce(group, {1000});
                             }
                           },
                           {.backend = "gloo"});
  const std::string odd = "rank 1 is at " + GetParam().odd_text;
  const std::string& usual = GetParam().usual_text;
  for (const std::string& error : errors)
    // By the heartbeats that are there: one of the other two may be missing.
    EXPECT_THAT(error,
                AnyOf(HasSubstr(odd + " while ranks 0 and 2 are at " + usual),
                      HasSubstr("rank 0 is at " + usual + " while " + odd),
                      HasSubstr(odd + " while rank 2 is at " + usual)));
}

INSTANTIATE_TEST_SUITE_P(Calls,
                         MismatchOverGloo,
                         ::testing::ValuesIn(mismatches()),
                         [](const auto& info) { return info.param.name; });

TEST(WhatGlooDoesNotKnow, IsRefusedByAllRanksAndTheGroupGoesOn) {
  const auto errors = testing::rank_errors(
      3,
      [](ProcessGroup group) {
        const auto refused = [&](const std::function<void()>& call, const std::string& words) {
          EXPECT_THAT(error_of(call), HasSubstr(words));
          torch::Tensor tensor = torch::full({2}, group.rank());
          group.all_reduce(tensor);
          EXPECT_EQ(tensor[1].item<int64_t>(), 3);
        };
        const torch::Tensor shorts = torch::zeros({3}, torch::kUInt16);
        refused([&] { group.all_reduce(shorts); }, "all_reduce of uint16 over gloo: ");
        refused([&] { group.all_reduce(shorts); }, "all_reduce of uint16 over gloo: ");
        refused([&] { group.broadcast(shorts); }, "broadcast of uint16 over gloo: ");
        refused([&] { group.all_gather(shorts); }, "all_gather of uint16 over gloo: ");
        refused([&] { group.all_reduce(torch::ones({3}), c10d::ReduceOp::BAND); },
                "bits of whole numbers or bools");
      },
      {.backend = "gloo"});
  EXPECT_THAT(errors, ::testing::Each(""));
}

// What it does know goes through, whatever we take for common.
TEST(WhatGlooDoesNotKnow, IsNotMoreThanItRefuses) {
  testing::run_ranks(
      2,
      [](ProcessGroup group) {
        for (const auto dtype : {torch::kFloat,
                                 torch::kDouble,
                                 torch::kLong,
                                 torch::kInt,
                                 torch::kByte,
                                 torch::kChar,
                                 torch::kHalf,
                                 torch::kBFloat16}) {
          for (const auto op : {c10d::ReduceOp::SUM,
                                c10d::ReduceOp::MIN,
                                c10d::ReduceOp::MAX,
                                c10d::ReduceOp::PRODUCT}) {
            torch::Tensor tensor = torch::full({5}, group.rank() + 1).to(dtype);
            group.all_reduce(tensor, op);
            const int expected = op == c10d::ReduceOp::SUM ? 3 : op == c10d::ReduceOp::MIN ? 1 : 2;
            EXPECT_TRUE((tensor == expected).all().item<bool>()) << tensor;
          }
        }
      },
      {.backend = "gloo"});
}

}  // namespace
}  // namespace muster
