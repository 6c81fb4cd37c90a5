// Ranks whose batches have other tensors are told so before the first step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/sets/tensor_dataset.h"
#include "muster/testing/run_ranks.h"
#include "muster/train/loop/task_parts.h"

namespace muster::train {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> errors_of(const data::TensorDataset& first,
                                   const data::TensorDataset& other) {
  return testing::rank_errors(2, [&](distributed::ProcessGroup group) {
    check_batches_on_ranks(group.rank() == 0 ? first : other, group);
  });
}

data::TensorDataset rows_of_width(int64_t width, at::ScalarType dtype = at::kFloat) {
  return {torch::zeros({4, width}, dtype), torch::zeros({4}, torch::kLong)};
}

TEST(BatchesOnRanks, HaveTheSameTensors) {
  EXPECT_THAT(errors_of(rows_of_width(8), rows_of_width(8)), Each(IsEmpty()));
  EXPECT_THAT(errors_of(rows_of_width(8), rows_of_width(9)),
              Each(AllOf(HasSubstr("the batches of all ranks have the same tensors"),
                         HasSubstr("rank 0: data float32 [2, 8]"),
                         HasSubstr("rank 1: data float32 [2, 9]"))));
  EXPECT_THAT(errors_of(rows_of_width(8), rows_of_width(8, at::kDouble)),
              Each(HasSubstr("rank 1: data float64")));
  const data::TensorDataset named({{"x", torch::zeros({4, 8})}, {"y", torch::zeros({4})}});
  EXPECT_THAT(errors_of(rows_of_width(8), named), Each(HasSubstr("rank 1: x float32")));
}

}  // namespace
}  // namespace muster::train
