// The contract of process-group backends, fifth part: tensors and arguments that no collective takes
// are refused in the same words over every backend, and NaN is not lost.
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"

#include "tests/distributed/backends/collectives.h"

namespace muster {
namespace {

using c10d::ReduceOp;
using distributed::ProcessGroup;
using test::Ability;
using test::refusal_of;
using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;

class OddCollectives : public test::OverBackends {
 protected:
  /// The call of every rank is a usage error that says `words`, and the group goes on.
  void expect_refused(const ProcessGroup& group,
                      const std::function<void()>& call,
                      const std::string& words) const {
    EXPECT_THAT(refusal_of(call), HasSubstr(words));
    torch::Tensor one = torch::ones({1});
    group.all_reduce(one);
    EXPECT_EQ(one.item<float>(), static_cast<float>(group.world_size()));
  }
};

struct Odd {
  std::string name;
  at::Tensor tensor;
  std::string words;
};

std::vector<Odd> odd_tensors() {
  const at::Tensor plain = torch::ones({2, 2});
  return {
      {"undefined", {}, "tensors are defined (got undefined tensor)"},
      {"meta", at::empty({2, 2}, at::kMeta), "tensors hold values (got float32[2, 2] on the meta"},
      {"quantized",
       at::quantize_per_tensor(plain, 0.1, 0, at::kQInt8),
       "tensors hold plain numbers (got qint8[2, 2], which is quantized)"},
      {"csr", plain.to_sparse_csr(), "tensors are dense"},
      {"mkldnn", plain.to_mkldnn(), "tensors are dense"},
      {"nested",
       at::_nested_tensor_from_tensor_list({torch::ones({2}), torch::ones({3})}),
       "tensors are dense"}};
}

TEST_P(OddCollectives, TensorsThatNoBackendMovesAreRefusedByGroups) {
  run([&](ProcessGroup group) {
    for (const Odd& odd : odd_tensors()) {
      SCOPED_TRACE(odd.name);
      expect_refused(
          group, [&] { group.all_reduce(odd.tensor); }, odd.words);
      expect_refused(
          group, [&] { group.broadcast(odd.tensor); }, odd.words);
      expect_refused(
          group, [&] { group.all_gather(odd.tensor); }, odd.words);
    }
    const at::Tensor sparse = torch::eye(2).to_sparse();
    expect_refused(
        group, [&] { group.broadcast(sparse); }, "of layout Sparse");
    expect_refused(
        group, [&] { group.all_gather(sparse); }, "of layout Sparse");
    expect_refused(
        group, [&] { group.all_reduce(sparse, ReduceOp::MAX); }, "they are summed or averaged");
    expect_refused(
        group,
        [&] { group.all_reduce(torch::ones({1}).expand({3})); },
        "each element of a result has a place of its own");
  });
}

TEST_P(OddCollectives, TensorsThatNoBackendMovesAreRefusedByBackends) {
  run([&](ProcessGroup group) {
    const auto backend = test::backend_of(group);
    const auto world = static_cast<size_t>(group.world_size());
    const auto other = [&](const at::Tensor& tensor) { return Tensors(world, tensor); };
    for (const Odd& odd : odd_tensors()) {
      SCOPED_TRACE(odd.name);
      Tensors odds{odd.tensor}, fine{torch::ones({2, 2})};
      TensorLists odd_list{other(odd.tensor)}, fine_list{other(fine[0])};
      Tensors fines = fine_list[0], all_odd = odd_list[0];
      at::Tensor plain = torch::ones({2, 2}), whole = torch::ones({2 * group.world_size(), 2});
      std::vector<int64_t> none;
      const std::function<void()> calls[] = {
          [&] { backend->allreduce(odds); },
          [&] { backend->allreduce_coalesced(odds); },
          [&] { backend->broadcast(odds); },
          [&] { backend->reduce(odds); },
          [&] { backend->allgather(fine_list, odds); },
          [&] { backend->allgather(odd_list, fine); },
          [&] { backend->_allgather_base(whole, odds[0]); },
          [&] { backend->_reduce_scatter_base(odds[0], whole); },
          [&] { backend->reduce_scatter(odds, fine_list); },
          [&] { backend->alltoall_base(odds[0], whole, none, none); },
          [&] { backend->alltoall(all_odd, fines); },
          [&] { backend->send(odds, 0, 0); },
          [&] { backend->recv(odds, 0, 0); },
          [&] { backend->recvAnysource(odds, 0); }};
      for (size_t i = 0; i < std::size(calls); ++i) {
        SCOPED_TRACE(i);
        const bool refuses_any =
            i + 1 == std::size(calls) && !can(Ability::kAnySource);  // whatever it is
        expect_refused(group, calls[i], refuses_any ? "recv_any" : odd.words.substr(0, 12));
      }
    }
  });
}

TEST_P(OddCollectives, SparseTensorsAreSummedInPlaceByGroups) {
  run([&](ProcessGroup group) {
    const at::Tensor sparse = torch::eye(3).mul(group.rank() + 1).to_sparse();
    group.all_reduce(sparse);
    const int64_t world = group.world_size();
    EXPECT_TRUE(torch::equal(sparse.to_dense(), torch::eye(3) * (world * (world + 1) / 2)));
  });
}

TEST_P(OddCollectives, RootsAndPeersThatAreNoRanksAreRefused) {
  run([&](ProcessGroup group) {
    const auto backend = test::backend_of(group);
    for (const int odd : {99, -1, group.world_size()}) {
      const std::string words = "ranks (got root " + std::to_string(odd) + ")";
      Tensors word{torch::ones({2})};
      TensorLists lists{Tensors(static_cast<size_t>(group.world_size()), word[0])};
      expect_refused(
          group, [&] { group.broadcast(word[0], odd); }, words);
      expect_refused(
          group, [&] { backend->reduce(word, {.rootRank = odd}); }, words);
      expect_refused(
          group, [&] { backend->gather(lists, word, {.rootRank = odd}); }, words);
      expect_refused(
          group, [&] { backend->scatter(word, lists, {.rootRank = odd}); }, words);
      const std::string peer = "a rank of the group (got rank " + std::to_string(odd) + " of";
      expect_refused(
          group, [&] { backend->send(word, odd, 0); }, peer);
      expect_refused(
          group, [&] { backend->recv(word, odd, 0); }, peer);
    }
  });
}

TEST_P(OddCollectives, ReductionsThatNobodyKnowsAndThoseOfOtherDtypesAreRefused) {
  run([&](ProcessGroup group) {
    const at::Tensor floats = torch::ones({2}), whole = torch::ones({2}, at::kLong);
    const auto refused = [&](const at::Tensor& tensor, ReduceOp::RedOpType op, const char* words) {
      expect_refused(
          group, [&] { group.all_reduce(tensor, op); }, words);
    };
    refused(floats, ReduceOp::UNUSED, "sum, avg, product, min, max, band, bor, bxor are known");
    refused(floats, ReduceOp::BAND, "bits of whole numbers or bools");
    refused(whole, ReduceOp::AVG, "an average of floating-point numbers");
    refused(torch::ones({2}, at::kComplexFloat), ReduceOp::MIN, "complex numbers have no order");
    const auto backend = test::backend_of(group);
    Tensors none, several{floats, floats};
    expect_refused(
        group, [&] { backend->allreduce(none); }, "at least one tensor");
    expect_refused(
        group, [&] { backend->reduce(several); }, "one input tensor");
    if (!can(Ability::kTensorList)) {
      expect_refused(
          group, [&] { backend->allreduce(several); }, "one tensor per call");
      expect_refused(
          group, [&] { backend->broadcast(several); }, "one tensor per call");
    }
  });
}

/// Rank r's numbers: NaN at place r, another one, whose sign is set, behind all ranks' places, and
/// what else is at the ends of the order.
at::Tensor numbers_with_nan(int rank, int world, at::ScalarType dtype) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  at::Tensor numbers = torch::arange(world + 6, at::kDouble) - 3.0 * rank;
  numbers[rank] = nan;
  if (rank == world - 1) numbers[world] = -nan;
  numbers[world + 1] = rank == 0 ? inf : 1.0;
  numbers[world + 2] = rank == 0 ? -inf : 1.0;
  numbers[world + 3] = rank == 0 ? -1e-3 : -2e-3;
  numbers[world + 4] = rank == 0 ? nan : inf;
  return numbers.to(dtype);
}

TEST_P(OddCollectives, NanOfAnyRankIsTheMinimumAndTheMaximum) {
  run([&](ProcessGroup group) {
    const auto backend = test::backend_of(group);
    const int rank = group.rank(), world = group.world_size();
    for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
      for (const auto op : {ReduceOp::MIN, ReduceOp::MAX}) {
        SCOPED_TRACE(std::string(c10::toString(dtype)) + (op == ReduceOp::MIN ? " min" : " max"));
        Tensors all;
        for (int r = 0; r < world; ++r) all.push_back(numbers_with_nan(r, world, dtype));
        // PyTorch's own, on one tensor.
        const at::Tensor table = torch::stack(all);
        const at::Tensor expected = op == ReduceOp::MIN ? table.amin(0) : table.amax(0);
        const auto same = [](const at::Tensor& a, const at::Tensor& b) {
          return torch::allclose(a, b, 0, 0, /*equal_nan=*/true);
        };
        at::Tensor mine = all[static_cast<size_t>(rank)].clone();
        group.all_reduce(mine, op);
        EXPECT_TRUE(same(mine, expected)) << mine << expected;
        Tensors coalesced{all[static_cast<size_t>(rank)].clone()};
        c10d::AllreduceCoalescedOptions how;
        how.reduceOp = op;
        backend->allreduce_coalesced(coalesced, how)->wait();
        EXPECT_TRUE(same(coalesced[0], expected)) << coalesced[0];
        Tensors to_root{all[static_cast<size_t>(rank)].clone()};
        const int root = world - 1;
        backend->reduce(to_root, {.reduceOp = op, .rootRank = root})->wait();
        if (rank == root) {
          EXPECT_TRUE(same(to_root[0], expected)) << to_root[0];
        }
        at::Tensor whole = all[static_cast<size_t>(rank)].repeat({world});
        at::Tensor part = torch::zeros_like(expected);
        c10d::ReduceScatterOptions scattered;
        scattered.reduceOp = op;
        backend->_reduce_scatter_base(part, whole, scattered)->wait();
        EXPECT_TRUE(same(part, expected)) << part;
        TensorLists parts{Tensors(static_cast<size_t>(world), all[static_cast<size_t>(rank)])};
        Tensors taken{torch::zeros_like(expected)};
        backend->reduce_scatter(taken, parts, scattered)->wait();
        EXPECT_TRUE(same(taken[0], expected)) << taken[0];
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Backends,
                         OddCollectives,
                         ::testing::ValuesIn(test::over_all()),
                         test::name_of);

}  // namespace
}  // namespace muster
