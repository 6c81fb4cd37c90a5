// DataParallel's numbers: gradients and weights are those of one device on the whole batch.
#include "muster/parallel/replicas/data_parallel.h"

#include <condition_variable>
#include <mutex>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/parallel/replicas/line.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using test::cpus;
using test::square;

using parallel::DataParallel;
using parallel::DataParallelOptions;
using parallel::LossReduction;
using parallel::SharePolicy;
using ::testing::ElementsAre;

/// What a random model is made of; the same shape always makes the same weights.
struct Shape {
  std::vector<int64_t> widths;  // of the inputs and of each layer
  bool convolution = false;     // before the layers
  bool tied = false;            // one square layer is used twice
  int64_t classes = 3;
};

struct RandomNetImpl : torch::nn::Module {
  explicit RandomNetImpl(const Shape& shape) {
    torch::manual_seed(5);
    if (shape.convolution)
      convolution = register_module(
          "convolution", torch::nn::Conv1d(torch::nn::Conv1dOptions(1, 1, 3).padding(1)));
    for (size_t i = 0; i + 1 < shape.widths.size(); ++i)
      layers->push_back(torch::nn::Linear(shape.widths[i], shape.widths[i + 1]));
    register_module("layers", layers);
    if (shape.tied)
      again = register_module("again", torch::nn::Linear(shape.widths.back(), shape.widths.back()));
    head = register_module("head", torch::nn::Linear(shape.widths.back(), shape.classes));
  }
  torch::Tensor forward(torch::Tensor x) {
    if (convolution) x = torch::tanh(convolution(x.unsqueeze(1)).squeeze(1));
    for (const auto& layer : *layers) x = torch::tanh(layer->as<torch::nn::Linear>()->forward(x));
    if (again) x = torch::tanh(again(torch::tanh(again(x))));
    return head(x);
  }
  torch::nn::Conv1d convolution{nullptr};
  torch::nn::ModuleList layers;
  torch::nn::Linear again{nullptr}, head{nullptr};
};
TORCH_MODULE(RandomNet);

struct Batch {
  torch::Tensor x, y;
};

Batch random_batch(const Shape& shape, int64_t rows, uint64_t seed, torch::Dtype dtype) {
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(seed);
  return {torch::randn({rows, shape.widths[0]}, generator).to(dtype),
          torch::randint(0, shape.classes, {rows}, generator, torch::kLong)};
}

/// The loss of either reduction, as a user writes it.
torch::Tensor loss_of(const torch::Tensor& scores,
                      const torch::Tensor& target,
                      LossReduction reduction) {
  const auto options = torch::nn::functional::CrossEntropyFuncOptions();
  if (reduction == LossReduction::kMean)
    return torch::nn::functional::cross_entropy(scores, target, options);
  return torch::nn::functional::cross_entropy(
      scores, target, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
}

double farthest(const torch::Tensor& a, const torch::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

struct Case {
  Shape shape;
  int replicas;
  std::vector<int64_t> batches;
  DataParallelOptions options;
  bool adds_a_batch;  // two backward passes in each step, the first without averaging
};

/// A case that `seed` decides: layers, replicas, batch sizes (fewer rows than replicas, too),
/// shares.
Case random_case(uint32_t seed) {
  std::mt19937 random(seed);
  const auto draw = [&](int from, int to) {
    return from + static_cast<int>(random() % (to - from + 1));
  };
  Case out;
  for (int i = draw(2, 4); i > 0; --i) out.shape.widths.push_back(draw(2, 9));
  out.shape.convolution = draw(0, 1) == 1;
  out.shape.tied = draw(0, 1) == 1;
  out.replicas = 1 + static_cast<int>(seed % 4);
  for (int i = 0; i < 4; ++i) out.batches.push_back(draw(1, i == 0 ? out.replicas : 23));
  if (draw(0, 1) == 1) {
    out.options.shares = SharePolicy::kFixed;
    for (int i = 0; i < out.replicas; ++i) out.options.weights.push_back(i > 0 ? draw(0, 3) : 1);
  }
  out.options.reduction = draw(0, 2) == 0 ? LossReduction::kSum : LossReduction::kMean;
  out.options.ddp.bucket_bytes_cap = 1 << draw(6, 12);
  out.options.ddp.first_bucket_bytes_cap = 64;
  out.options.ddp.gradient_as_bucket_view = draw(0, 1) == 1;
  out.options.ddp.find_unused_parameters = draw(0, 3) == 0;
  out.adds_a_batch = draw(0, 2) == 0;
  return out;
}

class DataParallelAgainstOneDevice
    : public ::testing::TestWithParam<std::tuple<uint32_t, torch::Dtype>> {};

TEST_P(DataParallelAgainstOneDevice, GradientsAndWeightsAreThoseOfTheWholeBatch) {
  const auto [seed, dtype] = GetParam();
  const Case it = random_case(seed);
  const double tolerance = dtype == torch::kDouble ? 1e-12 : 1e-5;
  const bool sums = it.options.reduction == LossReduction::kSum;

  const auto make = [&, dtype = dtype] {
    RandomNet net(it.shape);
    net->to(dtype);
    return net;
  };
  const auto make_optimizer = [&](RandomNet& net) {
    return torch::optim::SGD(net->parameters(),
                             torch::optim::SGDOptions(sums ? 0.005 : 0.1).momentum(0.9));
  };
  RandomNet one = make();
  auto one_optimizer = make_optimizer(one);
  DataParallel dp(make, cpus(it.replicas), it.options);
  auto optimizer = dp.optimizer(make_optimizer);
  const auto loss = [&](RandomNet& net, const torch::Tensor& x, const torch::Tensor& y) {
    return loss_of(net->forward(x), y, it.options.reduction);
  };

  for (size_t step = 0; step < it.batches.size(); ++step) {
    const Batch batch = random_batch(it.shape, it.batches[step], 100 * seed + step, dtype);
    const Batch more = random_batch(it.shape, it.batches[step] + 1, 100 * seed + step + 50, dtype);
    one_optimizer.zero_grad();
    optimizer.zero_grad();
    if (it.adds_a_batch) {
      loss(one, more.x, more.y).backward();
      const auto pause = dp.no_sync();
      dp.backward(more.x, more.y, loss);
    }
    const torch::Tensor expected = loss(one, batch.x, batch.y);
    expected.backward();
    const torch::Tensor seen = dp.backward(batch.x, batch.y, loss);
    EXPECT_LE(farthest(seen, expected.detach()), tolerance * batch.x.size(0));
    const double scale = sums ? 50 : 1;
    for (int replica = 0; replica < dp.size(); ++replica) {
      const auto ours = dp.module(replica)->named_parameters();
      for (const auto& item : one->named_parameters())
        EXPECT_LE(farthest(ours[item.key()].grad(), item.value().grad()), scale * tolerance)
            << "gradient of " << item.key() << " on replica " << replica << ", step " << step;
    }
    one_optimizer.step();
    optimizer.step();
  }
  for (int replica = 0; replica < dp.size(); ++replica) {
    const auto ours = dp.module(replica)->named_parameters();
    for (const auto& item : one->named_parameters()) {
      EXPECT_LE(farthest(ours[item.key()], item.value()), tolerance) << item.key();
      EXPECT_TRUE(torch::equal(ours[item.key()], dp.module(0)->named_parameters()[item.key()]))
          << item.key() << " of replica " << replica << " differs from replica 0's";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(RandomModels,
                         DataParallelAgainstOneDevice,
                         ::testing::Combine(::testing::Range(0U, 24U),
                                            ::testing::Values(torch::kDouble, torch::kFloat)),
                         [](const auto& info) {
                           return "model_" + std::to_string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) == torch::kDouble ? "_float64"
                                                                             : "_float32");
                         });

struct Line {
  static torch::nn::Linear make() {
    torch::manual_seed(3);
    torch::nn::Linear line(4, 2);
    return line;
  }
  static torch::Tensor loss(torch::nn::Linear& line, const torch::Tensor& x) {
    return line->forward(x).pow(2).mean();
  }
};

TEST(DataParallel, ReplicasStayEqualBitForBitUnderAdam) {
  DataParallel dp(&Line::make, cpus(4));
  auto optimizer = dp.optimizer(
      [](torch::nn::Linear& net) { return torch::optim::Adam(net->parameters(), 0.01); });
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    dp.backward(torch::randn({7 + step % 5, 4}), &Line::loss);
    optimizer.step();
  }
  for (int replica = 1; replica < 4; ++replica)
    EXPECT_TRUE(torch::equal(dp.module(replica)->weight, dp.module()->weight));
}

TEST(DataParallel, EqualAndFixedSharesGiveTheSameBitsOnEveryRun) {
  const auto train = [](const DataParallelOptions& options) {
    DataParallel dp(&Line::make, cpus(3), options);
    auto optimizer = dp.optimizer(
        [](torch::nn::Linear& net) { return torch::optim::SGD(net->parameters(), 0.1); });
    torch::manual_seed(1);
    for (int step = 0; step < 10; ++step) {
      optimizer.zero_grad();
      dp.backward(torch::randn({11, 4}), &Line::loss);
      optimizer.step();
    }
    return dp.module()->weight.detach().clone();
  };
  EXPECT_TRUE(torch::equal(train({}), train({})));
  const DataParallelOptions fixed{.shares = SharePolicy::kFixed, .weights = {3, 1, 2}};
  EXPECT_TRUE(torch::equal(train(fixed), train(fixed)));
}

/// A clock per replica that only the replica's own work moves.
struct WorkClock {
  explicit WorkClock(std::vector<double> costs) : cost(std::move(costs)), now(cost.size(), 0) {}
  std::vector<double> cost, now;
};

TEST(DataParallel, SharesFollowAReplicaThatIsThreeTimesSlower) {
  WorkClock clock({1e-3, 3e-3});
  std::vector<torch::nn::Linear> made;
  const auto make = [&] {
    made.push_back(Line::make());
    return made.back();
  };
  DataParallel dp(make,
                  cpus(2),
                  {.shares = SharePolicy::kSpeed,
                   .speed_window = 5,
                   .max_share_change = 0.2,
                   .clock = [&](int replica) { return clock.now[replica]; }});
  const auto loss = [&](torch::nn::Linear& net, const torch::Tensor& x) {
    const int replica = net.ptr() == made[0].ptr() ? 0 : 1;
    clock.now[replica] += clock.cost[replica] * static_cast<double>(x.size(0));
    return Line::loss(net, x);
  };
  const torch::Tensor x = torch::randn({80, 4});
  std::vector<int64_t> slow_rows;
  for (int step = 0; step < 20; ++step) {
    dp.backward(x, loss);
    slow_rows.push_back(dp.rows()[1]);
  }
  EXPECT_EQ(slow_rows[0], 40);
  for (size_t i = 1; i < slow_rows.size(); ++i) {
    EXPECT_LE(slow_rows[i], slow_rows[i - 1]);
    EXPECT_GE(slow_rows[i], 0.8 * slow_rows[i - 1] - 1) << "more than a fifth in one step";
  }
  EXPECT_NEAR(slow_rows.back(), 20, 1);
  EXPECT_EQ(dp.rows()[0] + dp.rows()[1], 80);

  // The slow one recovers: half of the rows again.
  clock.cost[1] = 1e-3;
  for (int step = 0; step < 30; ++step) dp.backward(x, loss);
  EXPECT_NEAR(static_cast<double>(dp.rows()[1]), 40, 1);
}

TEST(DataParallel, AReplicasTimeEndsBeforeItWaitsForTheOthers) {
  // Replica 1 does not begin its loss before replica 0's clock was read at both ends: with the wait
  // in replica 0's time, nobody would ever go on.
  std::mutex mutex;
  std::condition_variable changed;
  int reads = 0;  // of replica 0's clock
  std::vector<torch::nn::Linear> made;
  const auto make = [&] {
    made.push_back(Line::make());
    return made.back();
  };
  const auto clock = [&](int replica) {
    const std::lock_guard lock(mutex);
    if (replica == 0) ++reads;
    changed.notify_all();
    return 0.0;
  };
  DataParallel dp(make, cpus(2), {.shares = SharePolicy::kSpeed, .clock = clock});
  for (int step = 1; step <= 3; ++step) {
    dp.backward(torch::randn({8, 4}), [&](torch::nn::Linear& net, const torch::Tensor& x) {
      std::unique_lock lock(mutex);
      if (net.ptr() == made[1].ptr()) {
        const bool came =
            changed.wait_for(lock, std::chrono::seconds(20), [&] { return reads == 2 * step; });
        EXPECT_TRUE(came) << "step " << step;
      }
      return Line::loss(net, x);
    });
  }
}

TEST(DataParallel, SharesAreProportionalToFreeMemoryIfAsked) {
  DataParallel dp(
      &Line::make, cpus(3), {.shares = SharePolicy::kFreeMemory, .free_bytes = [](int replica) {
                               return uint64_t{1'000'000'000} * static_cast<uint64_t>(replica + 1);
                             }});
  dp.backward(torch::randn({60, 4}), &Line::loss);
  EXPECT_THAT(dp.rows(), ElementsAre(10, 20, 30));
}

TEST(DataParallel, TheCpusFreeMemoryIsTheSameForAllReplicas) {
  double rows = 0;  // asked one after the other, while other programs take and give
  for (int i = 0; i < 20 && std::abs(rows - 30) > 1; ++i) {
    DataParallel dp(&Line::make, cpus(2), {.shares = SharePolicy::kFreeMemory});
    dp.backward(torch::randn({60, 4}), &Line::loss);
    rows = static_cast<double>(dp.rows()[0]);
  }
  EXPECT_NEAR(rows, 30, 1);
}

TEST(DataParallel, AReplicaWithoutRowsTakesPartAndCountsNothing) {
  DataParallel dp(&Line::make, cpus(3), {.shares = SharePolicy::kFixed, .weights = {1, 0, 1}});
  torch::nn::Linear one = Line::make();
  const torch::Tensor x = torch::randn({5, 4}, torch::kDouble).to(torch::kFloat);
  Line::loss(one, x).backward();
  dp.backward(x, &Line::loss);
  EXPECT_THAT(dp.rows(), ElementsAre(3, 0, 2));
  for (int replica = 0; replica < 3; ++replica)
    EXPECT_LE(farthest(dp.module(replica)->weight.grad(), one->weight.grad()), 1e-6);
}

struct NormedImpl : torch::nn::Module {
  NormedImpl() {
    norm = register_module("norm", torch::nn::BatchNorm1d(4));
    out = register_module("out", torch::nn::Linear(4, 1));
  }
  torch::Tensor forward(const torch::Tensor& x) { return out(norm(x)); }
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear out{nullptr};
};
TORCH_MODULE(Normed);

TEST(DataParallel, InferenceUsesReplicaZerosStatisticsEverywhere) {
  DataParallel dp([] { return Normed(); }, cpus(2));
  torch::manual_seed(2);
  for (int step = 0; step < 3; ++step) {
    dp.backward(torch::randn({9, 4}) + step,
                [](Normed& net, const torch::Tensor& x) { return net->forward(x).pow(2).mean(); });
  }
  EXPECT_FALSE(torch::equal(dp.module(0)->norm->running_mean, dp.module(1)->norm->running_mean));
  dp.eval();
  const torch::Tensor x = torch::randn({10, 4});
  const torch::Tensor all = dp.forward(x);
  const torch::NoGradGuard no_grad;
  EXPECT_LE(farthest(all, dp.module(0)->forward(x)), 1e-6);
}

}  // namespace
}  // namespace muster
