// What every process-group backend promises. One suite over all backends that run without a device.
#include "tests/distributed/backends/collectives.h"

#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using test::error_of;
using ::testing::HasSubstr;

class Collectives : public test::OverBackends {};

TEST_P(Collectives, AllReduceSumsOverRanks) {
  run([](ProcessGroup group) {
    for (const auto dtype :
         {torch::kFloat, torch::kDouble, torch::kLong, torch::kInt, torch::kHalf}) {
      torch::Tensor tensor = torch::full({3, 5}, group.rank() + 1, dtype);
      group.all_reduce(tensor);
      const int world = group.world_size();
      EXPECT_TRUE(torch::equal(tensor, torch::full({3, 5}, world * (world + 1) / 2, dtype)));
    }
  });
}

TEST_P(Collectives, AllReduceKnowsMinMaxAndProduct) {
  run([](ProcessGroup group) {
    const int world = group.world_size();
    const auto reduced = [&](c10d::ReduceOp::RedOpType op) {
      torch::Tensor tensor = torch::tensor({group.rank() + 1.0, -group.rank() - 1.0});
      group.all_reduce(tensor, op);
      return tensor;
    };
    EXPECT_TRUE(torch::equal(reduced(c10d::ReduceOp::MIN), torch::tensor({1.0, -1.0 * world})));
    EXPECT_TRUE(torch::equal(reduced(c10d::ReduceOp::MAX), torch::tensor({1.0 * world, -1.0})));
    double factorial = 1;
    for (int i = 2; i <= world; ++i) factorial *= i;
    EXPECT_TRUE(torch::equal(reduced(c10d::ReduceOp::PRODUCT),
                             torch::tensor({factorial, world % 2 == 0 ? factorial : -factorial})));
  });
}

TEST_P(Collectives, BroadcastComesFromEachRoot) {
  run([](ProcessGroup group) {
    for (int root = 0; root < group.world_size(); ++root) {
      torch::Tensor tensor = torch::full({4}, group.rank() * 10 + root);
      group.broadcast(tensor, root);
      EXPECT_TRUE(torch::equal(tensor, torch::full({4}, root * 10 + root)));
    }
  });
}

TEST_P(Collectives, AllGatherPutsRanksInOrder) {
  run([](ProcessGroup group) {
    const torch::Tensor all = group.all_gather(torch::full({2, 3}, group.rank(), torch::kLong));
    ASSERT_EQ(all.sizes(), (std::vector<int64_t>{group.world_size(), 2, 3}));
    for (int rank = 0; rank < group.world_size(); ++rank)
      EXPECT_TRUE(torch::equal(all[rank], torch::full({2, 3}, rank, torch::kLong)));
  });
}

TEST_P(Collectives, TextsOfUnequalLengthAreGathered) {
  run([](ProcessGroup group) {
    const std::vector<std::string> texts =
        group.all_gather_text(std::string(group.rank() * 7, 'x'));
    ASSERT_EQ(texts.size(), group.world_size());
    for (int rank = 0; rank < group.world_size(); ++rank)
      EXPECT_EQ(texts[rank], std::string(rank * 7, 'x'));
  });
}

TEST_P(Collectives, ManyOperationsMayBeInFlight) {
  run([](ProcessGroup group) {
    std::vector<torch::Tensor> tensors;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (int i = 0; i < 50; ++i) {
      tensors.push_back(torch::full({100}, i + group.rank()));
      std::vector<at::Tensor> one{tensors.back()};
      works.push_back(group.c10d()->allreduce(one));
    }
    const int world = group.world_size();
    for (int i = 49; i >= 0; --i) {
      works[i]->wait();
      EXPECT_EQ(tensors[i][99].item<int64_t>(), i * world + world * (world - 1) / 2);
    }
  });
}

TEST_P(Collectives, SendMeetsReceiveInARing) {
  run([](ProcessGroup group) {
    if (group.world_size() == 1) return;
    const int next = (group.rank() + 1) % group.world_size(),
              last = (group.rank() + group.world_size() - 1) % group.world_size();
    std::vector<at::Tensor> out{torch::full({6}, group.rank())},
        in{torch::zeros({6}, torch::kLong)};
    // Both sides send first: neither may block before the other has posted its receive.
    const auto sent = group.c10d()->send(out, next, 7);
    const auto received = group.c10d()->recv(in, last, 7);
    received->wait();
    sent->wait();
    EXPECT_TRUE(torch::equal(in[0], torch::full({6}, last)));
  });
}

// c10d calls these *_single now and called them _*_base in LibTorch 2.11.
template <class Group>
void reduce_scatter(Group& group, torch::Tensor& part, torch::Tensor& whole) {
  if constexpr (requires { group.reduce_scatter_single(part, whole); })
    group.reduce_scatter_single(part, whole)->wait();
  else
    group._reduce_scatter_base(part, whole)->wait();
}

template <class Group>
void all_gather(Group& group, torch::Tensor& whole, torch::Tensor& part) {
  if constexpr (requires { group.all_gather_single(whole, part); })
    group.all_gather_single(whole, part)->wait();
  else
    group._allgather_base(whole, part)->wait();
}

TEST_P(Collectives, ReduceScatterAndGatherAreEachOthersInverse) {
  run([](ProcessGroup group) {
    const int world = group.world_size();
    torch::Tensor whole = torch::arange(world * 3, torch::kDouble);
    torch::Tensor part = torch::zeros({3}, torch::kDouble);
    reduce_scatter(*group.c10d(), part, whole);
    EXPECT_TRUE(torch::equal(
        part, torch::arange(world * 3, torch::kDouble).narrow(0, group.rank() * 3, 3) * world));
    torch::Tensor back = torch::zeros({world * 3}, torch::kDouble);
    all_gather(*group.c10d(), back, part);
    EXPECT_TRUE(torch::equal(back, torch::arange(world * 3, torch::kDouble) * world));
  });
}

TEST_P(Collectives, NobodyPassesABarrierBeforeTheLastCame) {
  std::atomic<int> came{0};
  run([&](ProcessGroup group) {
    for (int round = 1; round <= 5; ++round) {
      ++came;
      group.barrier();
      EXPECT_GE(came.load(), round * group.world_size());
      group.barrier();
    }
  });
}

/// Small numbers of each rank, so that no order of summation matters.
torch::Tensor numbers(int rank, at::ScalarType dtype) {
  const torch::Tensor values = (torch::arange(37) * (rank + 2) + rank) % 5;
  return values.to(dtype);
}

/// What a reduction over all ranks is, by ATen itself in rank order.
torch::Tensor reference(int world, at::ScalarType dtype, c10d::ReduceOp::RedOpType op) {
  torch::Tensor result = numbers(0, dtype).clone();
  for (int rank = 1; rank < world; ++rank) {
    const torch::Tensor next = numbers(rank, dtype);
    switch (op) {
      case c10d::ReduceOp::PRODUCT:
        result = result * next;
        break;
      case c10d::ReduceOp::MIN:
        result = torch::minimum(result, next);
        break;
      case c10d::ReduceOp::MAX:
        result = torch::maximum(result, next);
        break;
      case c10d::ReduceOp::BAND:
        result = result.bitwise_and(next);
        break;
      case c10d::ReduceOp::BOR:
        result = result.bitwise_or(next);
        break;
      case c10d::ReduceOp::BXOR:
        result = result.bitwise_xor(next);
        break;
      default:
        result = result + next;
    }
  }
  return op == c10d::ReduceOp::AVG ? result / world : result;
}

TEST_P(Collectives, ReductionsKnowEveryDtypeOrSayThatTheyDoNot) {
  using c10d::ReduceOp;
  using test::Ability;
  run([&](ProcessGroup group) {
    for (const auto dtype : {at::kBool,
                             at::kByte,
                             at::kChar,
                             at::kInt,
                             at::kLong,
                             at::kHalf,
                             at::kBFloat16,
                             at::kFloat,
                             at::kDouble,
                             at::kComplexFloat}) {
      if (dtype == at::kBool && !can(Ability::kReduceBool)) continue;
      if (dtype == at::kComplexFloat && !can(Ability::kReduceComplex)) continue;
      const bool whole = c10::isIntegralType(dtype, true);
      std::vector<ReduceOp::RedOpType> ops{ReduceOp::SUM, ReduceOp::PRODUCT};
      if (dtype != at::kComplexFloat) ops.insert(ops.end(), {ReduceOp::MIN, ReduceOp::MAX});
      if (whole && can(Ability::kBitwise))
        ops.insert(ops.end(), {ReduceOp::BAND, ReduceOp::BOR, ReduceOp::BXOR});
      if (!whole && can(Ability::kAverage)) ops.push_back(ReduceOp::AVG);
      for (const auto op : ops) {
        torch::Tensor tensor = numbers(group.rank(), dtype);
        group.all_reduce(tensor, op);
        EXPECT_TRUE(torch::equal(tensor, reference(group.world_size(), dtype, op)))
            << c10::toString(dtype) << " op " << int(op) << tensor;
      }
    }
  });
}

TEST_P(Collectives, ReductionsThatADtypeHasNotAreRefused) {
  using c10d::ReduceOp;
  run([&](ProcessGroup group) {
    const auto error = [&](at::ScalarType dtype, ReduceOp::RedOpType op) {
      torch::Tensor tensor = numbers(group.rank(), dtype);
      return error_of([&] { group.all_reduce(tensor, op); });
    };
    if (!can(test::Ability::kReduceComplex)) {
      EXPECT_NE(error(at::kComplexFloat, ReduceOp::MAX), test::kNoError);
      return;
    }
    EXPECT_THAT(error(at::kLong, ReduceOp::AVG), HasSubstr("an average of floating-point numbers"));
    EXPECT_THAT(error(at::kFloat, ReduceOp::BXOR), HasSubstr("bits of whole numbers"));
    EXPECT_THAT(error(at::kComplexFloat, ReduceOp::MAX), HasSubstr("have no order"));
    group.barrier();  // the group is still usable
  });
}

INSTANTIATE_TEST_SUITE_P(Backends,
                         Collectives,
                         ::testing::ValuesIn(test::over_all()),
                         test::name_of);

}  // namespace
}  // namespace muster
