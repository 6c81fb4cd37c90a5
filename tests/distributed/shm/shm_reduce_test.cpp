// Sums over ranks as shm makes them: of any length and place, written over what was summed.
#include "muster/distributed/shm/shm_reduce.h"

#include <cstring>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/distributed/call/contribution.h"
#include "muster/testing/run_ranks.h"

#include "tests/distributed/backends/collectives.h"

namespace muster {
namespace {

using c10d::ReduceOp;
using distributed::ProcessGroup;

struct Sum {
  ReduceOp::RedOpType op;
  at::ScalarType dtype;
};

const Sum kSums[] = {{ReduceOp::SUM, at::kFloat},
                     {ReduceOp::SUM, at::kDouble},
                     {ReduceOp::SUM, at::kBFloat16},
                     {ReduceOp::SUM, at::kComplexDouble},
                     {ReduceOp::SUM, at::kByte},
                     {ReduceOp::AVG, at::kFloat},
                     {ReduceOp::AVG, at::kDouble},
                     {ReduceOp::MAX, at::kHalf},
                     {ReduceOp::BXOR, at::kLong}};

/// Numbers of which a sum in another order differs.
torch::Tensor numbers(int64_t count, at::ScalarType dtype, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  if (c10::isIntegralType(dtype, false))
    return torch::randint(0, 100, {count}, generator).to(dtype);
  const torch::Tensor powers = torch::randint(-6, 7, {count}, generator).to(torch::kDouble);
  return (torch::randn({count}, generator, torch::kDouble) * torch::pow(10, powers)).to(dtype);
}

/// By ATen, in the order of ranks.
torch::Tensor expected_of(const std::vector<torch::Tensor>& values, ReduceOp::RedOpType op) {
  torch::Tensor sum = values[0].clone();
  distributed::reduce_in_order(sum, values, op);
  return sum;
}

bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         (a.numel() == 0 || std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0);
}

TEST(ReduceValues, EqualsAtenBitForBitAtAnyLengthAndAlignment) {
  for (const auto [op, dtype] : kSums) {
    for (const int64_t count : {0, 1, 3, 15, 16, 17, 31, 100, 16384, 16390, 40001}) {
      std::vector<torch::Tensor> values;
      for (uint64_t r = 0; r < 3; ++r)
        values.push_back(numbers(count + 1, dtype, r).narrow(0, 1, count));
      const torch::Tensor expected = expected_of(values, op);
      torch::Tensor result = torch::empty({count}, dtype);
      std::vector<const std::byte*> from;
      for (const auto& value : values)
        from.push_back(static_cast<const std::byte*>(value.data_ptr()));
      std::byte* const into[] = {static_cast<std::byte*>(result.data_ptr())};
      distributed::reduce_values(op, dtype, from, into, size_t(count));
      EXPECT_TRUE(same_bits(result, expected)) << distributed::reduce_name(op) << dtype << count;
    }
  }
}

TEST(ReduceValues, MayBeWrittenOverAnyOfTheValues) {
  for (const auto [op, dtype] : kSums) {
    for (unsigned targets = 1; targets < 8; ++targets) {
      std::vector<torch::Tensor> values, before;
      std::vector<const std::byte*> from;
      std::vector<std::byte*> into;
      for (unsigned r = 0; r < 3; ++r) {
        values.push_back(numbers(20'000, dtype, r));
        before.push_back(values[r].clone());
        from.push_back(static_cast<const std::byte*>(values[r].data_ptr()));
        if ((targets >> r & 1) != 0) into.push_back(static_cast<std::byte*>(values[r].data_ptr()));
      }
      const torch::Tensor expected = expected_of(before, op);
      distributed::reduce_values(op, dtype, from, into, 20'000);
      for (unsigned r = 0; r < 3; ++r)
        EXPECT_TRUE(same_bits(values[r], (targets >> r & 1) != 0 ? expected : before[r]))
            << distributed::reduce_name(op) << dtype << " rank " << r << " of " << targets;
    }
  }
}

/// Bytes around the sizes at which slices, pieces of 512 KiB and single steps begin and end.
constexpr int64_t kPiece = 512 << 10;
constexpr int64_t kSizes[] = {
    16384, 16392, 16448, 65544, kPiece - 8, kPiece, kPiece + 8, 3 * kPiece + 80};

class ShmSlices : public ::testing::TestWithParam<int> {};

TEST_P(ShmSlices, SumInTheOrderOfRanksAtTheEdgesOfPieces) {
  const int world = GetParam();
  testing::run_ranks(world,
                     [&](ProcessGroup group) {
                       for (const int64_t size : kSizes) {
                         const int64_t count = size / 8;
                         std::vector<torch::Tensor> all;
                         for (int r = 0; r < world; ++r)
                           all.push_back(numbers(count, at::kDouble, uint64_t(r)));
                         const torch::Tensor mine = all[group.rank()].clone();
                         const torch::Tensor expected = expected_of(all, ReduceOp::SUM);
                         for (int again = 0; again < 3; ++again) {  // both parities
                           torch::Tensor sum = mine.clone();
                           group.all_reduce(sum);
                           ASSERT_TRUE(same_bits(sum, expected)) << size;
                         }
                       }
                     },
                     {.backend = "shm"});
}

TEST_P(ShmSlices, GoToTheRootAloneInAReduce) {
  const int world = GetParam();
  testing::run_ranks(world,
                     [&](ProcessGroup group) {
                       std::vector<torch::Tensor> all;
                       for (int r = 0; r < world; ++r)
                         all.push_back(numbers((kPiece + 100) / 4, at::kFloat, uint64_t(r)));
                       const torch::Tensor expected = expected_of(all, ReduceOp::SUM);
                       for (int root = 0; root < world; ++root) {
                         std::vector<torch::Tensor> tensors{all[group.rank()].clone()};
                         c10d::ReduceOptions options;
                         options.rootRank = root;
                         test::backend_of(group)->reduce(tensors, options)->wait();
                         const bool is_root = group.rank() == root;
                         ASSERT_TRUE(same_bits(tensors[0], is_root ? expected : all[group.rank()]))
                             << "rank " << group.rank() << " of root " << root;
                       }
                     },
                     {.backend = "shm"});
}

INSTANTIATE_TEST_SUITE_P(Ranks, ShmSlices, ::testing::Values(1, 2, 3, 4, 7));

}  // namespace
}  // namespace muster
