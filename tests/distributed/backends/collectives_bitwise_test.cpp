// `shm` gives what `thread` gives, bit for bit: any shape, dtype, reduction, number of ranks.
#include <cstdlib>
#include <cstring>
#include <random>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/distributed/backends/collectives.h"
#include "tests/support/seed.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using test::backend_of;
using Tensors = std::vector<at::Tensor>;

struct Case {
  std::vector<int64_t> shape;
  at::ScalarType dtype;
  c10d::ReduceOp::RedOpType op;
  int root;
};

/// Each pair of a dtype and a reduction that it has, without shape and root.
std::vector<Case> kinds_of_cases() {
  using c10d::ReduceOp;
  std::vector<Case> kinds;
  for (const at::ScalarType dtype : {at::kFloat,
                                     at::kDouble,
                                     at::kHalf,
                                     at::kBFloat16,
                                     at::kComplexFloat,
                                     at::kInt,
                                     at::kLong,
                                     at::kByte}) {
    const bool floating = c10::isFloatingType(dtype), complex = c10::isComplexType(dtype);
    std::vector<ReduceOp::RedOpType> ops{ReduceOp::SUM, ReduceOp::PRODUCT};
    if (!complex) ops.insert(ops.end(), {ReduceOp::MIN, ReduceOp::MAX});
    if (floating || complex) ops.push_back(ReduceOp::AVG);
    if (!floating && !complex)
      ops.insert(ops.end(), {ReduceOp::BAND, ReduceOp::BOR, ReduceOp::BXOR});
    for (const auto op : ops) kinds.push_back({.dtype = dtype, .op = op});
  }
  return kinds;
}

Case draw_case(Case one, std::mt19937& random, int world) {
  one.root = int(random() % world);
  const int dims = int(random() % 4);
  for (int d = 0; d < dims; ++d) one.shape.push_back(int64_t(random() % 40));
  if (random() % 9 == 0) one.shape = {int64_t(random() % 700'000)};  // more than a chunk
  return one;
}

/// Numbers whose sum depends on the order; NaN and infinity among them.
torch::Tensor draw_tensor(const Case& one, int rank, unsigned seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed * 16 + unsigned(rank));
  const bool inexact = c10::isFloatingType(one.dtype) || c10::isComplexType(one.dtype);
  if (!inexact) return torch::randint(0, 100, one.shape, generator).to(one.dtype);
  torch::Tensor values = torch::randn(one.shape, generator, torch::kDouble);
  values = values * torch::pow(10, torch::randint(-3, 4, one.shape, generator).to(torch::kDouble));
  if (values.numel() > 20) {
    values.view(-1)[7] = std::numeric_limits<double>::quiet_NaN();
    values.view(-1)[11 + rank % 2] = std::numeric_limits<double>::infinity();
  }
  return values.to(one.dtype);
}

/// What all operations of the drawn cases leave on a rank.
Tensors results_of(ProcessGroup group, unsigned seed) {
  std::mt19937 random(seed);
  Tensors results;
  const int world = group.world_size(), rank = group.rank();
  for (const Case& kind : kinds_of_cases()) {
    const Case one = draw_case(kind, random, world);
    const unsigned numbers = random();
    const torch::Tensor mine = draw_tensor(one, rank, numbers);
    torch::Tensor all = mine.clone();
    group.all_reduce(all, one.op);
    Tensors rooted{mine.clone()};
    c10d::ReduceOptions options;
    options.reduceOp = one.op;
    options.rootRank = one.root;
    backend_of(group)->reduce(rooted, options)->wait();
    Tensors part{torch::zeros_like(mine)};
    std::vector<Tensors> parts(1);
    for (int to = 0; to < world; ++to) parts[0].push_back(draw_tensor(one, rank * 4 + to, numbers));
    c10d::ReduceScatterOptions scatter;
    scatter.reduceOp = one.op;
    backend_of(group)->reduce_scatter(part, parts, scatter)->wait();
    results.insert(results.end(), {all, rank == one.root ? rooted[0] : all, part[0]});
  }
  return results;
}

std::vector<Tensors> results_over(const std::string& backend, int world, unsigned seed) {
  std::vector<Tensors> results(world);
  testing::run_ranks(world,
                     [&](ProcessGroup group) { results[group.rank()] = results_of(group, seed); },
                     {.backend = backend});
  return results;
}

bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         (a.numel() == 0 || std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0);
}

/// Always the same, but where one is given, or asked for with MUSTER_SOAK. With 4, both shm's own
/// sums and means and reductions by ATen are longer than a chunk, over two to four ranks.
unsigned seed_of_operations() {
  return std::getenv("MUSTER_SOAK") != nullptr ? test::seed_of_test() % 100'000
                                               : test::seed_of_test(4);
}

class ThreadAndShm : public ::testing::TestWithParam<int> {};

TEST_P(ThreadAndShm, AgreeBitForBitOnRandomOperations) {
  const int world = GetParam();
  const unsigned seed = seed_of_operations();
  SCOPED_TRACE("repeat with MUSTER_TEST_SEED=" + std::to_string(seed));
  // Other shapes and numbers for each number of ranks.
  const unsigned own = 10 * seed + unsigned(world);
  const auto threads = results_over("thread", world, own), shm = results_over("shm", world, own);
  for (int rank = 0; rank < world; ++rank) {
    ASSERT_EQ(threads[rank].size(), shm[rank].size());
    for (size_t i = 0; i < shm[rank].size(); ++i)
      EXPECT_TRUE(same_bits(threads[rank][i], shm[rank][i]))
          << "rank " << rank << ", result " << i << " " << shm[rank][i].options()
          << shm[rank][i].sizes();
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, ThreadAndShm, ::testing::Range(1, 5));

TEST(RankOrder, DecidesTheSumSoItIsBitEqualFromRunToRun) {
  // (1e16 + 1) - 1e16 is 0 in this order and 1 in others.
  for (const std::string backend : {"thread", "shm"}) {
    testing::run_ranks(3,
                       [](ProcessGroup group) {
                         const double terms[] = {1e16, 1.0, -1e16};
                         for (const int64_t length : {1, 50'000}) {
                           torch::Tensor tensor =
                               torch::full({length}, terms[group.rank()], torch::kDouble);
                           group.all_reduce(tensor);
                           EXPECT_EQ(tensor[length - 1].item<double>(), (1e16 + 1.0) - 1e16);
                         }
                       },
                       {.backend = backend});
  }
}

}  // namespace
}  // namespace muster
