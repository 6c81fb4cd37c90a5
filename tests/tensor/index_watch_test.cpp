// Indices that are outside, named before the operator runs: by what PyTorch's documentation says an
// index may be.
#include "muster/tensor/index_watch.h"

#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/error_of.h"

namespace muster::tensor {
namespace {

using test::error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Of a call that LibTorch itself refuses on the CPU, or not.
std::optional<BadIndex> found_in(const std::function<void()>& call) {
  const IndexWatch watch;
  try {
    call();
  } catch (const c10::Error&) {
  }
  return watch.found();
}

at::Tensor whole(std::vector<int64_t> values) { return torch::tensor(values, torch::kLong); }

TEST(IndexWatch, NamesOperatorPlaceValueAndRange) {
  const at::Tensor weight = torch::rand({5, 3});
  const auto found = found_in([&] {
    torch::embedding(weight, whole({0, 4, 1, 2, 5, 7}).view({2, 3}));
  });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->op, "embedding");
  EXPECT_EQ(found->indices, "indices");
  EXPECT_THAT(found->place, ElementsAre(1, 1)) << "row-major: the fifth of 2 x 3";
  EXPECT_EQ(found->value, 5);
  EXPECT_EQ(found->first, 0);
  EXPECT_EQ(found->last, 4);
  EXPECT_EQ(found->bad, 2);
  EXPECT_EQ(found->all, 6);
  EXPECT_EQ(
      text_of(*found),
      "embedding: indices[1, 1] = 5 is none of 0 … 4 (the weight has 5 rows; 2 of 6 outside)");
}

TEST(IndexWatch, KnowsTheOperatorsThatReadByIndex) {
  const at::Tensor x = torch::rand({2, 3});
  const at::Tensor bad = whole({0, 3}).view({2, 1});
  const struct {
    const char* op;
    std::function<void()> call;
    int64_t value;
  } cases[] = {
      {"gather", [&] { x.gather(1, bad); }, 3},
      {"gather", [&] { x.gather(-1, bad); }, 3},
      {"index_select",
       [&] {
         x.index_select(0, whole({1, -1}));
       },
       -1},
      {"scatter",
       [&] {
         torch::zeros({2, 3}).scatter_(1, bad, 1.0);
       },
       3},
      {"scatter_add",
       [&] {
         torch::zeros({2, 3}).scatter_add_(1, bad, torch::ones({2, 1}));
       },
       3},
      {"index_add",
       [&] {
         torch::zeros({2, 3}).index_add_(0, whole({2}), torch::ones({1, 3}));
       },
       2},
      {"index_fill",
       [&] {
         torch::zeros({2, 3}).index_fill_(1, whole({-4}), 1.0);
       },
       -4},
      {"take",
       [&] {
         x.take(whole({5, 6}));
       },
       6},
      {"index",
       [&] {
         x.index({torch::indexing::Slice(), whole({0, 3})});
       },
       3},
      {"index", [&] { x.index({whole({-3})}); }, -3},
      {"index_put",
       [&] {
         torch::zeros({2, 3}).index_put_({whole({9})}, torch::ones({1, 3}));
       },
       9},
      {"cross_entropy_loss",
       [&] {
         torch::cross_entropy_loss(x, whole({0, 3}));
       },
       3},
      {"nll_loss",
       [&] {
         torch::nll_loss(x, whole({-1, 0}));
       },
       -1},
      {"embedding_bag",
       [&] {
         torch::embedding_bag(torch::rand({4, 2}), whole({4}), whole({0}));
       },
       4},
  };
  for (const auto& [op, call, value] : cases) {
    const auto found = found_in(call);
    ASSERT_TRUE(found) << op;
    EXPECT_EQ(found->op, op);
    EXPECT_EQ(found->value, value) << op;
  }
}

TEST(IndexWatch, IsSilentWhereAllIsWithin) {
  const at::Tensor x = torch::rand({2, 3}, torch::requires_grad());
  EXPECT_FALSE(found_in([&] {
    torch::embedding(torch::rand({5, 3}), whole({0, 4}));
    x.gather(1, whole({0, 2}).view({2, 1})).sum().backward();
    x.index({whole({-2, 1})});
    x.index({x > 0.5});
    x.index_fill(1, whole({-3, 2}), 1.0);
    x.take(whole({-6, 5}));
    torch::cross_entropy_loss(x, whole({0, 2}));
    torch::cross_entropy_loss(x,
                              torch::softmax(torch::rand({2, 3}), 1));  // targets of probabilities
    // What is ignored counts nothing, whatever it is.
    torch::cross_entropy_loss(x, whole({-100, 2}));
    torch::cross_entropy_loss(x, whole({7, 2}), {}, at::Reduction::Mean, /*ignore_index=*/7);
    torch::cross_entropy_loss(torch::rand({2, 4, 5}), torch::full({2, 5}, 3, torch::kLong));
    torch::embedding(torch::rand({5, 3}), torch::empty({0}, torch::kLong));
  }));
}

TEST(IndexWatch, ReadsStridedAnd32BitIndices) {
  const at::Tensor strided = whole({0, 9, 1, 9}).view({2, 2}).select(1, 0);
  EXPECT_FALSE(found_in([&] { torch::embedding(torch::rand({2, 2}), strided); }));
  const auto found = found_in([&] {
    torch::embedding(torch::rand({2, 2}), whole({1, 2}).to(torch::kInt));
  });
  ASSERT_TRUE(found);
  EXPECT_THAT(found->place, ElementsAre(1));
}

TEST(IndexWatch, KeepsTheFirstAndWatchesItsOwnThread) {
  const at::Tensor weight = torch::rand({2, 2});
  const auto call = [&](int64_t index) {
    try {
      torch::embedding(weight, whole({index}));
    } catch (const c10::Error&) {
    }
  };
  IndexWatch watch;
  std::thread([&] { call(8); }).join();
  EXPECT_FALSE(watch.found());
  call(5);
  call(6);
  ASSERT_TRUE(watch.found());
  EXPECT_EQ(watch.found()->value, 5);
  EXPECT_THAT(error_of([] { const IndexWatch second; }), HasSubstr("a thread has one at a time"));
}

TEST(IndexWatch, OfNothingToCountItSaysSo) {
  const auto found = found_in([] { torch::embedding(torch::rand({0, 3}), whole({0})); });
  ASSERT_TRUE(found);
  EXPECT_EQ(text_of(*found),
            "embedding: indices[0] = 0, and there is none (the weight has 0 rows; 1 of 1 outside)");
}

}  // namespace
}  // namespace muster::tensor
