// Batch norms called by normalize(), against LibTorch's own forward.
#include "muster/tensor/batch_norm.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace muster::tensor {
namespace {

using torch::nn::BatchNorm2d;

TEST(Normalize, IsTheLayersOwnForwardToTheBit) {
  const torch::Tensor x = torch::rand({3, 4, 2, 2});
  for (const bool shared : {false, true}) {
    const SharedBatches batches(shared);
    BatchNorm2d ours(4), theirs(4);
    EXPECT_TRUE(torch::equal(normalize(*ours, x), theirs(x)));
    EXPECT_TRUE(torch::equal(ours->running_var, theirs->running_var));
    EXPECT_TRUE(torch::equal(ours->num_batches_tracked, theirs->num_batches_tracked));
    ours->eval();
    theirs->eval();
    const torch::Tensor one = x.narrow(0, 0, 1).narrow(2, 0, 1).narrow(3, 0, 1);
    EXPECT_TRUE(torch::equal(normalize(*ours, one), theirs(one)));
  }
}

TEST(Normalize, TakesOneValuePerChannelOnlyWhereTheBatchIsShared) {
  const torch::Tensor one = torch::ones({1, 4, 1, 1});
  BatchNorm2d norm(4);
  EXPECT_THROW(normalize(*norm, one), c10::Error);
  {
    const SharedBatches shared(true);
    EXPECT_TRUE(SharedBatches::hold());
    EXPECT_EQ(normalize(*norm, one).sizes(), one.sizes());
    EXPECT_THROW(normalize(*norm, torch::ones({1, 4})), c10::Error);  // no image
    const SharedBatches alone(false);
    EXPECT_THROW(normalize(*norm, one), c10::Error);
  }
  EXPECT_FALSE(SharedBatches::hold());
  EXPECT_THROW(normalize(*norm, one), c10::Error);
}

}  // namespace
}  // namespace muster::tensor
