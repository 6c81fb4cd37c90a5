// Pipelines in one process: the gradients of one device, whatever the schedule and the cuts.
#include "muster/parallel/pipeline/pipeline.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/pipeline/schedule/schedule.h"

#include "tests/parallel/pipeline/nets.h"
#include "tests/support/distance.h"
#include "tests/support/seed.h"

namespace muster {
namespace {

using parallel::block;
using parallel::Block;
using parallel::blocks_of;
using parallel::Pipeline;
using parallel::PipelineOptions;
using parallel::PipelineStep;
using parallel::Tensors;
using test::Chain;
using test::difference;
using test::gradients_of;
using test::gradients_on_one_device;
using test::random_split;
using test::ranks_on_cpu;
using test::squares;
using ::testing::HasSubstr;

struct Case {
  std::string schedule;
  int64_t stages_per_rank;
};

std::vector<Case> all_schedules() {
  std::vector<Case> cases;
  for (const auto* entry : pipeline::schedules())
    cases.push_back({std::string(entry->name), entry->stages_per_rank});
  cases.push_back({"1f1b:eager=true", 1});
  cases.push_back({"zb1p", 2});
  return cases;
}

/// Of every schedule that takes the sizes, over random chains.
void expect_gradients_of_one_device(torch::Dtype dtype, double tolerance) {
  const unsigned seed = test::seed_of_test();
  SCOPED_TRACE(concat("repeat with MUSTER_TEST_SEED=", seed));
  std::mt19937 random(seed);
  int runs = 0;
  for (const Case& schedule : all_schedules()) {
    for (int64_t ranks = 1; ranks <= 4; ++ranks) {
      for (const int64_t micro_batches : {1, 2, 3, 5, 8}) {
        const int64_t stages = ranks * schedule.stages_per_rank;
        Chain chain(int(stages + int64_t(random() % 3)), random(), dtype);
        const int64_t rows = micro_batches + int64_t(random() % 9);  // mostly uneven
        const torch::Tensor x = chain.inputs(rows), y = chain.targets(rows);
        const auto expected = gradients_on_one_device(chain, x, y);
        const double loss = squares({chain.net->forward(x)}, {y}).item<double>();
        SCOPED_TRACE(
            concat(schedule.schedule, ", ", ranks, " ranks, ", micro_batches, " of ", rows));
        PipelineOptions options{.schedule = schedule.schedule, .micro_batches = micro_batches};
        options.first_block = random_split(int64_t(chain.net->size()), stages, random);
        try {
          Pipeline pipe(blocks_of(chain.net), ranks_on_cpu(ranks), &squares, options);
          const PipelineStep step = pipe.step({x}, {y});
          ++runs;
          EXPECT_LE(difference(gradients_of(chain.net->parameters()), expected), tolerance);
          EXPECT_NEAR(step.loss.item<double>(), loss, tolerance * std::max(1.0, loss));
        } catch (const Error& error) {
          // Schedules say which sizes they do not take.
          if (error.kind() != ErrorKind::kUsage) throw;
          EXPECT_THAT(error.what(), HasSubstr("micro-batches"));
        }
      }
    }
  }
  EXPECT_GE(runs, 100);
}

TEST(Pipeline, GradientsAreThoseOfOneDeviceInDouble) {
  expect_gradients_of_one_device(torch::kDouble, 1e-12);
}

TEST(Pipeline, GradientsAreThoseOfOneDeviceInFloat) {
  expect_gradients_of_one_device(torch::kFloat, 1e-5);
}

TEST(Pipeline, TwentyOptimizerStepsAreThoseOfOneDevice) {
  for (const Case& schedule : all_schedules()) {
    SCOPED_TRACE(schedule.schedule);
    Chain alone(6, 7), cut(6, 7);
    const int64_t stages = 2 * schedule.stages_per_rank;
    PipelineOptions options{.schedule = schedule.schedule, .micro_batches = 4};
    std::mt19937 random(3);
    options.first_block = random_split(6, stages, random);
    Pipeline pipe(blocks_of(cut.net), ranks_on_cpu(2), &squares, options);
    torch::optim::AdamW one(alone.net->parameters(), 0.01), two(pipe.parameters(), 0.01);
    torch::manual_seed(5);
    for (int i = 0; i < 20; ++i) {
      const torch::Tensor x = alone.inputs(10), y = alone.targets(10);
      one.zero_grad();
      squares({alone.net->forward(x)}, {y}).backward();
      one.step();
      two.zero_grad();
      pipe.step({x}, {y});
      two.step();
    }
    EXPECT_LE(difference(alone.net->parameters(), cut.net->parameters()), 1e-12);
  }
}

TEST(Pipeline, StepsAddUpAndScaleAndTwoRunsGiveTheSameBits) {
  Chain chain(5, 11);
  const torch::Tensor x = chain.inputs(9), y = chain.targets(9);
  Pipeline pipe(blocks_of(chain.net),
                ranks_on_cpu(2),
                &squares,
                {.schedule = "zb1p", .micro_batches = 4, .first_block = {0, 2}});
  pipe.step({x}, {y});
  const auto once = gradients_of(pipe.parameters());
  pipe.zero_grad();
  pipe.step({x}, {y});
  const auto again = gradients_of(pipe.parameters());
  for (size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(torch::equal(once[i], again[i]));
  pipe.step({x}, {y}, 3.0);
  const auto four = gradients_of(pipe.parameters());
  for (size_t i = 0; i < once.size(); ++i)
    EXPECT_LE((four[i] - 4 * once[i]).abs().max().item<double>(), 1e-12);
}

TEST(Pipeline, ALossThatIsASumIsAddedUpAndCountsWeighMeans) {
  Chain chain(4, 13);
  const torch::Tensor x = chain.inputs(7), y = chain.targets(7);
  const auto sum = [](const Tensors& out, const Tensors& target) {
    return (out[0] - target[0]).pow(2).sum();
  };
  sum({chain.net->forward(x)}, {y}).backward();
  const auto expected = gradients_of(chain.net->parameters());
  chain.net->zero_grad();
  Pipeline summed(
      blocks_of(chain.net),
      ranks_on_cpu(2),
      sum,
      {.micro_batches = 3, .first_block = {0, 2}, .reduction = parallel::LossReduction::kSum});
  EXPECT_NEAR(summed.step({x}, {y}).loss.item<double>(),
              sum({chain.net->forward(x)}, {y}).item<double>(),
              1e-12);
  EXPECT_LE(difference(gradients_of(chain.net->parameters()), expected), 1e-12);
  chain.net->zero_grad();

  // A mean over rows that count: of a masked loss, where a micro-batch may have none at all.
  const torch::Tensor mask = torch::tensor({1, 0, 1, 1, 0, 0, 1}, torch::kDouble);
  const auto masked = [](const Tensors& out, const Tensors& target) {
    return ((out[0] - target[0]).pow(2).mean(1) * target[1]).sum() / target[1].sum();
  };
  masked({chain.net->forward(x)}, {y, mask}).backward();
  const auto of_masked = gradients_of(chain.net->parameters());
  chain.net->zero_grad();
  std::vector<parallel::MicroBatch> parts;
  for (const auto& [from, to] : {std::pair{0, 3}, {3, 4}, {4, 6}, {6, 7}}) {
    const auto rows = torch::indexing::Slice(from, to);
    parts.push_back({{x.index({rows})},
                     {y.index({rows}), mask.index({rows})},
                     mask.index({rows}).sum().item<double>()});
  }
  Pipeline counted(blocks_of(chain.net), ranks_on_cpu(2), masked, {.first_block = {0, 2}});
  counted.step(parts);
  EXPECT_LE(difference(gradients_of(chain.net->parameters()), of_masked), 1e-12);
}

/// A U: what goes in at the top comes out at the bottom, through blocks that do not touch it; and a
/// tensor of whole numbers, which no gradient goes through.
TEST(Pipeline, SkipConnectionsGoThroughTheBlocksBetween) {
  torch::manual_seed(17);
  std::vector<torch::nn::Linear> layers;
  for (int i = 0; i < 4; ++i) {
    layers.push_back(torch::nn::Linear(3, 3));
    layers.back()->to(torch::kDouble);
  }
  const auto whole = [&](const torch::Tensor& x, const torch::Tensor& number) {
    const torch::Tensor a = layers[0](x), b = layers[1](a).tanh(), c = layers[2](b).tanh();
    return layers[3](c + a) * number.unsqueeze(1);
  };
  std::vector<Block> blocks;
  const auto add = [&](int i, auto forward) {
    blocks.push_back({concat("b", i), {layers[size_t(i)].ptr()}, forward});
  };
  add(0, [l = layers[0]](const Tensors& in) mutable -> Tensors {
    const torch::Tensor a = l(in[0]);
    return {a, a, in[1]};
  });
  for (int i : {1, 2})
    add(i, [l = layers[size_t(i)]](const Tensors& in) mutable -> Tensors {
      return {l(in[0]).tanh(), in[1], in[2]};
    });
  add(3, [l = layers[3]](const Tensors& in) mutable -> Tensors {
    return {l(in[0] + in[1]) * in[2].unsqueeze(1)};
  });
  const torch::Tensor x = torch::randn({6, 3}, torch::kDouble),
                      y = torch::randn({6, 3}, torch::kDouble);
  const torch::Tensor number = torch::randint(5, {6});
  std::vector<torch::Tensor> parameters;
  for (const auto& layer : layers)
    for (const auto& parameter : layer->parameters()) parameters.push_back(parameter);
  squares({whole(x, number)}, {y}).backward();
  const auto expected = gradients_of(parameters);
  for (const std::string schedule : {"gpipe", "1f1b", "zb1p"}) {
    Pipeline pipe(blocks, ranks_on_cpu(4), &squares, {.schedule = schedule, .micro_batches = 4});
    pipe.zero_grad();
    pipe.step({x, number}, {y});
    EXPECT_LE(difference(gradients_of(parameters), expected), 1e-12) << schedule;
    EXPECT_LE((pipe.forward({x, number})[0] - whole(x, number)).abs().max().item<double>(), 1e-12);
  }
}

TEST(Pipeline, TiedParametersAreOne) {
  // Tokens to vectors and, by the same table, back to scores.
  const auto make = [] {
    torch::manual_seed(19);
    struct Parts {
      torch::nn::Embedding table{7, 4};
      torch::nn::Linear middle{4, 4};
      torch::nn::Linear scores{torch::nn::LinearOptions(4, 7).bias(false)};
    } parts;
    parts.table->to(torch::kDouble);
    parts.middle->to(torch::kDouble);
    parts.scores->to(torch::kDouble);
    return parts;
  };
  auto alone = make(), cut = make();
  const auto loss = [](const Tensors& out, const Tensors& target) {
    return torch::nn::functional::cross_entropy(out[0], target[0]);
  };
  Pipeline pipe(
      {block("table", cut.table), block("middle", cut.middle), block("scores", cut.scores)},
      ranks_on_cpu(3),
      loss,
      {.micro_batches = 3, .tied = {{"scores.weight", "table.weight"}}});
  EXPECT_EQ(pipe.parameters().size(), 3U);
  torch::optim::Adam one({alone.table->weight, alone.middle->weight, alone.middle->bias}, 0.05);
  torch::optim::Adam two(pipe.parameters(), 0.05);
  torch::manual_seed(23);
  for (int i = 0; i < 10; ++i) {
    const torch::Tensor tokens = torch::randint(7, {8}), next = torch::randint(7, {8});
    one.zero_grad();
    const torch::Tensor hidden = alone.middle(alone.table(tokens));
    loss({hidden.matmul(alone.table->weight.t())}, {next}).backward();
    one.step();
    two.zero_grad();
    pipe.step({tokens}, {next});
    two.step();
  }
  EXPECT_LE(difference({cut.table->weight, cut.middle->weight},
                       {alone.table->weight, alone.middle->weight}),
            1e-12);
  pipe.forward({torch::randint(7, {2})});
  EXPECT_TRUE(torch::equal(cut.table->weight, cut.scores->weight));
}

TEST(Pipeline, CheckpointedBlocksChangeNoBit) {
  for (const std::string schedule : {"1f1b", "zb1p"}) {
    Chain chain(6, 29, torch::kDouble, /*in_place=*/false);
    const torch::Tensor x = chain.inputs(8), y = chain.targets(8);
    const auto of = [&](std::vector<bool> checkpointed) {
      Pipeline pipe(blocks_of(chain.net),
                    ranks_on_cpu(2),
                    &squares,
                    {.schedule = schedule,
                     .micro_batches = 4,
                     .first_block = {0, 3},
                     .checkpointed = std::move(checkpointed)});
      pipe.zero_grad();
      pipe.step({x}, {y});
      return gradients_of(pipe.parameters());
    };
    const auto plain = of({}), again = of({true, true, false, true, true, true});
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(torch::equal(plain[i], again[i])) << i;
  }
}

/// A dropout with a generator of its own, as models::Dropout.
struct OwnDropoutImpl : torch::nn::Module {
  explicit OwnDropoutImpl(uint64_t seed) : generator(at::detail::createCPUGenerator(seed)) {}
  torch::Tensor forward(const torch::Tensor& x) {
    return x * torch::empty_like(x).bernoulli_(0.5, generator);
  }
  at::Generator generator;
};
TORCH_MODULE(OwnDropout);

TEST(Pipeline, CheckpointedDropoutsDrawTheSameAgain) {
  const auto of = [](bool checkpointed) {
    Chain chain(2, 41, torch::kDouble, /*in_place=*/false);
    std::vector<Block> blocks = blocks_of(chain.net);
    for (const size_t at : {1, 3}) {
      OwnDropout dropout(at);
      Block drop = block(concat("drop", at), dropout);
      drop.generators = {dropout->generator};
      blocks.insert(blocks.begin() + std::ptrdiff_t(at), drop);
    }
    Pipeline pipe(blocks,
                  ranks_on_cpu(2),
                  &squares,
                  {.micro_batches = 4,
                   .first_block = {0, 2},
                   .checkpointed = std::vector<bool>(4, checkpointed)});
    pipe.step({chain.inputs(8)}, {chain.targets(8)});
    return gradients_of(pipe.parameters());
  };
  const auto plain = of(false), again = of(true);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(torch::equal(plain[i], again[i])) << i;
}

TEST(Pipeline, AnOutputThatTheNextStageIgnoresCountsNothing) {
  torch::nn::Linear first(3, 4), last(4, 2);
  first->to(torch::kDouble);
  last->to(torch::kDouble);
  const torch::Tensor x = torch::randn({4, 3}, torch::kDouble),
                      y = torch::randn({4, 2}, torch::kDouble);
  squares({last(first(x))}, {y}).backward();
  const std::vector<torch::Tensor> parameters{first->weight, first->bias, last->weight, last->bias};
  const auto expected = gradients_of(parameters);
  for (const std::string schedule : {"1f1b", "zb1p"}) {
    for (const torch::Tensor& parameter : parameters) parameter.mutable_grad() = torch::Tensor();
    Pipeline pipe({{"first",
                    {first.ptr()},
                    [first](const Tensors& in) mutable -> Tensors {
                      const torch::Tensor h = first(in[0]);
                      return {h, h.mean()};
                    }},
                   {"last",
                    {last.ptr()},
                    [last](const Tensors& in) mutable -> Tensors { return {last(in[0])}; }}},
                  ranks_on_cpu(2),
                  &squares,
                  {.schedule = schedule, .micro_batches = 2});
    pipe.step({x}, {y});
    EXPECT_LE(difference(gradients_of(parameters), expected), 1e-12);
  }
}

TEST(Pipeline, ASequentialMayBeABlock) {
  Chain chain(3, 43);
  const torch::Tensor x = chain.inputs(4), y = chain.targets(4);
  const auto expected = gradients_on_one_device(chain, x, y);
  Pipeline pipe({block("all", chain.net)}, ranks_on_cpu(1), &squares, {.micro_batches = 2});
  pipe.step({x}, {y});
  EXPECT_LE(difference(gradients_of(chain.net->parameters()), expected), 1e-12);
}

TEST(Pipeline, ATimelineHasEachActionOfEachRankInOrder) {
  Chain chain(4, 31);
  Pipeline pipe(
      blocks_of(chain.net), ranks_on_cpu(2), &squares, {.micro_batches = 3, .first_block = {0, 2}});
  const pipeline::Timeline timeline = pipe.step({chain.inputs(6)}, {chain.targets(6)}).timeline;
  const auto list = [&](size_t rank) {
    std::string text;
    for (const auto& span : timeline.ranks.at(rank)) text += to_text(span.action) + " ";
    return text;
  };
  EXPECT_EQ(list(0),
            "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0F2 0SEND_F2 0RECV_B1 0B1 0RECV_B2 0B2 "
            "0REDUCE_GRAD ");
  EXPECT_EQ(list(1),
            "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1RECV_F2 1F2 1B2 1SEND_B2 "
            "1REDUCE_GRAD ");
  for (const auto& rank : timeline.ranks)
    for (size_t i = 1; i < rank.size(); ++i) {
      EXPECT_LE(rank[i - 1].end_s, rank[i].start_s);
      EXPECT_LE(rank[i].start_s, rank[i].end_s);
    }
}

TEST(Pipeline, GradientsAreAveragedOnceForEachStageWhenTheyAreWhole) {
  Chain chain(4, 37);
  std::array<std::atomic<int>, 4> calls{};
  PipelineOptions options{.schedule = "interleaved", .micro_batches = 4};
  const torch::Tensor x = chain.inputs(8), y = chain.targets(8);
  const auto expected = gradients_on_one_device(chain, x, y);
  Pipeline* self = nullptr;
  options.average = [&](int64_t stage) {
    ++calls[size_t(stage)];
    for (const auto& [name, parameter] : self->parameters_of_stage(stage)) parameter.grad().mul_(2);
  };
  Pipeline pipe(blocks_of(chain.net), ranks_on_cpu(2), &squares, options);
  self = &pipe;
  pipe.step({x}, {y});
  for (const auto& count : calls) EXPECT_EQ(count, 1);
  auto found = gradients_of(chain.net->parameters());
  for (auto& gradient : found) gradient = gradient / 2;
  EXPECT_LE(difference(found, expected), 1e-12);
}

}  // namespace
}  // namespace muster
