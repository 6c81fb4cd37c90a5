// zero1 and zero2 in `muster train`: ddp's numbers, and checkpoints that any strategy and world
// size goes on with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/train/replicas/sharded_optimizer.h"

#include "tests/parallel/sharded/zero_nets.h"
#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/small_run.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::run_ranks;
using parallel::ShardedDataParallel;
using tensor::NamedTensorList;
using test::expect_same_state;
using test::Ran;
using test::run_as;
using test::small_run;
using ::testing::HasSubstr;

/// Stage 3 is strategy fsdp.
std::string strategy_of(int stage) { return stage == 3 ? "fsdp" : concat("zero", stage); }

/// stage, ranks
class ZeroStrategy : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  std::string name() const { return strategy_of(std::get<0>(GetParam())); }
  int world() const { return std::get<1>(GetParam()); }
};

// The whole checkpoint, optimizer state under the same names, is ddp's to the last byte.
TEST_P(ZeroStrategy, LeavesDdpsFilesWithEveryOptimizer) {
  for (const char* optimizer : {"sgd:nesterov=true,weight_decay=0.001",
                                "adam:amsgrad=true",
                                "adamw",
                                "rmsprop:centered=true"}) {
    train::TrainOptions options = small_run();
    options.optimizer = optimizer;
    options.lr = 0.003;
    options.epochs = 1;
    options.batch_size = 12;
    options.lr_schedule = "one_cycle";
    const test::Folder ddp_folder, zero_folder;
    const Ran ddp = run_as("ddp", options, world(), ddp_folder.path());
    const Ran zero = run_as(name(), options, world(), zero_folder.path());
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      EXPECT_TRUE(read_file(ddp.result.checkpoint / file) ==
                  read_file(zero.result.checkpoint / file))
          << file << " of " << optimizer;
    }
    EXPECT_EQ(zero.result.test.metrics["loss"], ddp.result.test.metrics["loss"]);
  }
}

TEST_P(ZeroStrategy, ResumesBitForBit) {
  train::TrainOptions options = small_run();
  options.optimizer = "adamw";
  options.batch_size = 12;
  options.epochs = 1;
  const test::Folder whole_folder, broken_folder;
  const Ran whole = run_as(name(), options, world(), whole_folder.path());
  const Ran broken = run_as(name(), options, world(), broken_folder.path(), {}, 7);
  ASSERT_TRUE(broken.result.interrupted);
  const Ran resumed =
      run_as(name(), options, world(), broken_folder.path(), broken.result.checkpoint);
  expect_same_state(resumed.last, whole.last);
}

INSTANTIATE_TEST_SUITE_P(Stage,
                         ZeroStrategy,
                         ::testing::Combine(::testing::Values(1, 2, 3), ::testing::Range(1, 5)),
                         [](const auto& info) {
                           return concat(std::get<0>(info.param), "_on_", std::get<1>(info.param));
                         });

struct Change {
  const char* from;
  int before;
  const char* to;
  int after;
};

class ZeroChange : public ::testing::TestWithParam<Change> {};

TEST_P(ZeroChange, GoesOnAsAnUnbrokenRunButForRounding) {
  const Change& change = GetParam();
  train::TrainOptions options = small_run();
  options.model = "mlp:hidden=37";  // no BatchNorm, whose batch statistics differ by design
  options.optimizer = "sgd";
  options.batch_size = 12;
  options.epochs = 1;
  const test::Folder whole_folder, broken_folder;
  const Ran whole = run_as("ddp", options, 1, whole_folder.path());
  const Ran broken = run_as(change.from, options, change.before, broken_folder.path(), {}, 7);
  const Ran resumed =
      run_as(change.to, options, change.after, broken_folder.path(), broken.result.checkpoint);
  EXPECT_EQ(resumed.last.position, whole.last.position);
  EXPECT_LE(test::model_difference(resumed.last, whole.last), 2e-6);
}

INSTANTIATE_TEST_SUITE_P(Of,
                         ZeroChange,
                         ::testing::Values(Change{"zero2", 3, "ddp", 2},
                                           Change{"zero2", 3, "single", 1},
                                           Change{"zero2", 2, "zero1", 4},
                                           Change{"zero1", 4, "zero2", 3},
                                           Change{"ddp", 2, "zero2", 4},
                                           Change{"fsdp", 3, "ddp", 2},
                                           Change{"fsdp", 2, "fsdp", 4},
                                           Change{"zero2", 3, "fsdp", 2},
                                           Change{"single", 1, "fsdp", 3},
                                           Change{"fsdp", 2, "single", 1},
                                           Change{"single", 1, "zero1", 3}),
                         [](const auto& info) {
                           const Change& c = info.param;
                           return concat(c.from, '_', c.before, "_to_", c.to, '_', c.after);
                         });

TEST(ZeroTraining, ClipsAndAccumulatesAsDdp) {
  train::TrainOptions options = small_run();
  options.model = "mlp:hidden=16";
  options.gradient_clip_val = 0.05;
  options.accumulate_grad_batches = 3;
  options.batch_size = 12;
  const test::Folder ddp_folder, one_folder, two_folder, three_folder;
  const Ran ddp = run_as("ddp", options, 3, ddp_folder.path());
  expect_same_state(run_as("zero1", options, 3, one_folder.path()).last, ddp.last);
  EXPECT_LE(test::model_difference(run_as("zero2", options, 3, two_folder.path()).last, ddp.last),
            2e-6);
  EXPECT_LE(test::model_difference(run_as("fsdp", options, 3, three_folder.path()).last, ddp.last),
            2e-6);
  EXPECT_THAT(read_file(two_folder.path() / "metrics.jsonl"), HasSubstr("\"gradient_norm\""));
}

TEST(ZeroTraining, OverGlooAgreesWithDdpAndResumesBitForBit) {
  train::TrainOptions options = small_run();
  options.batch_size = 12;
  options.epochs = 1;
  const test::Folder ddp_folder;
  const Ran ddp = run_as("ddp", options, 3, ddp_folder.path(), {}, 0, "gloo");
  for (const char* strategy : {"zero1", "zero2", "fsdp"}) {
    const test::Folder whole_folder, broken_folder;
    const std::filesystem::path broken_path = broken_folder.path();
    const Ran whole = run_as(strategy, options, 3, whole_folder.path(), {}, 0, "gloo");
    EXPECT_LE(test::model_difference(whole.last, ddp.last), 1e-5);
    const Ran broken = run_as(strategy, options, 3, broken_path, {}, 6, "gloo");
    const Ran resumed =
        run_as(strategy, options, 3, broken_path, broken.result.checkpoint, 0, "gloo");
    expect_same_state(resumed.last, whole.last);
  }
}

std::unique_ptr<optim::Optimizer> make_adamw(NamedTensorList parameters) {
  return optim::optimizers().at("adamw").make(std::move(parameters), 1e-2, {});
}

/// A bfloat16 network with float32 masters.
struct Mixed {
  explicit Mixed(ProcessGroup group, torch::nn::Sequential module, int stage)
      : net(module),
        zero(net, group, {.stage = stage, .bucket_bytes = 700}),
        optimizer(zero.core(), &make_adamw, 1e-2) {}

  void steps(int64_t from, int64_t to) {
    const int rank = zero.core().parameters().group().rank();
    const int world = zero.core().parameters().group().world_size();
    for (int64_t step = from; step < to; ++step) {
      auto generator = torch::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(step));
      const torch::Tensor all = torch::randn({12, 10}, generator);
      const torch::Tensor own = all.narrow(0, rank * 12 / world, 12 / world);
      optimizer.zero_grad();
      zero->forward(own.to(torch::kBFloat16)).to(torch::kFloat).pow(2).mean().backward();
      optimizer.step();
    }
  }

  torch::nn::Sequential net;
  ShardedDataParallel<torch::nn::Sequential> zero;
  train::ShardedOptimizer optimizer;
};

std::vector<torch::nn::Sequential> mixed_nets(int world) {
  std::vector<torch::nn::Sequential> nets;
  for (int rank = 0; rank < world; ++rank) {
    torch::manual_seed(3);
    torch::nn::Linear first(10, 33), second(33, 5);
    nets.emplace_back(first, torch::nn::Tanh(), second);
    nets.back()->to(torch::kBFloat16);
  }
  return nets;
}

/// What one rank would do with all in its hands: gradients as DDP averages them, a float32 master
/// of every parameter, an optimizer over the masters.
std::vector<torch::Tensor> reference_mixed(int world, int steps) {
  const auto nets = mixed_nets(world);
  std::vector<torch::Tensor> end;
  run_ranks(world, [&](ProcessGroup group) {
    torch::nn::Sequential net = nets[group.rank()];
    parallel::DistributedDataParallel ddp(net, group);
    NamedTensorList masters;
    for (const auto& item : net->named_parameters())
      masters.emplace_back(item.key(), item.value().detach().to(torch::kFloat));
    const auto optimizer = make_adamw(masters);
    for (int64_t step = 0; step < steps; ++step) {
      auto generator = torch::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(step));
      const torch::Tensor all = torch::randn({12, 10}, generator);
      const torch::Tensor own = all.narrow(0, group.rank() * 12 / world, 12 / world);
      ddp.zero_grad();
      ddp->forward(own.to(torch::kBFloat16)).to(torch::kFloat).pow(2).mean().backward();
      size_t i = 0;
      const torch::NoGradGuard no_grad;
      for (const torch::Tensor& parameter : net->parameters())
        masters[i++].second.mutable_grad() = parameter.grad().to(torch::kFloat);
      optimizer->step();
      i = 0;
      for (torch::Tensor& parameter : net->parameters()) parameter.copy_(masters[i++].second);
    }
    if (group.rank() == 0) {
      for (const auto& [name, master] : masters) end.push_back(master);
    }
  });
  return end;
}

TEST(ZeroMixed, KeepsFloat32MastersInShards) {
  const test::WithoutOneDnn plain;
  for (const int stage : {1, 2}) {
    for (const int world : {1, 2, 3}) {
      const auto want = reference_mixed(world, 6);
      const auto nets = mixed_nets(world);
      run_ranks(world, [&](ProcessGroup group) {
        Mixed mixed(group, nets[group.rank()], stage);
        mixed.steps(0, 6);
        const auto parameters = mixed.net->parameters();
        for (size_t i = 0; i < want.size(); ++i)
          EXPECT_TRUE(torch::equal(parameters[i], want[i].to(torch::kBFloat16)));
        const NamedTensorList state = mixed.optimizer.gather_state();
        size_t next = 0;
        for (const auto& [name, tensor] : state) {
          if (!name.starts_with("master/")) continue;
          EXPECT_TRUE(torch::equal(tensor, want[next++])) << name;
        }
        EXPECT_EQ(next, group.rank() == 0 ? want.size() : 0);
      });
    }
  }
}

TEST(ZeroMixed, StateGoesOnWithAnotherNumberOfRanks) {
  const test::WithoutOneDnn plain;
  NamedTensorList state;
  std::vector<torch::Tensor> weights;
  const auto first = mixed_nets(3);
  run_ranks(3, [&](ProcessGroup group) {
    Mixed mixed(group, first[group.rank()], 2);
    mixed.steps(0, 4);
    NamedTensorList own = mixed.optimizer.gather_state();
    if (group.rank() == 0) state = std::move(own);
  });
  for (const torch::Tensor& parameter : first[0]->parameters())
    weights.push_back(parameter.detach());
  for (const int world : {1, 2}) {
    const auto nets = mixed_nets(world);
    run_ranks(world, [&](ProcessGroup group) {
      Mixed mixed(group, nets[group.rank()], 2);
      {
        const torch::NoGradGuard no_grad;
        size_t i = 0;
        for (torch::Tensor& parameter : mixed.net->parameters()) parameter.copy_(weights[i++]);
      }
      mixed.optimizer.load_state({state, {}});
      const NamedTensorList again = mixed.optimizer.gather_state();
      ASSERT_EQ(again.size(), group.rank() == 0 ? state.size() : 0);
      for (size_t i = 0; i < again.size(); ++i) {
        EXPECT_EQ(again[i].first, state[i].first);
        EXPECT_TRUE(torch::equal(again[i].second, state[i].second)) << again[i].first;
      }
    });
  }
}

/// Every model of the zoo, small, with a forward, backward and step in bfloat16.
class ZeroZoo : public ::testing::TestWithParam<const char*> {};

TEST_P(ZeroZoo, TrainsInBfloat16NearFloat32) {
  const test::WithoutOneDnn plain;
  train::TrainOptions options = small_run();
  options.model = GetParam();
  options.data = "synthetic:samples=60,test_samples=12,size=8,classes=4,noise=0.3";
  options.validation_samples = 12;
  options.optimizer = "adamw";
  options.batch_size = 12;
  options.max_steps = 3;
  const test::Folder exact_folder, mixed_folder;
  const Ran exact = run_as("zero2", options, 2, exact_folder.path());
  const Ran mixed = run_as("zero2:dtype=bfloat16", options, 2, mixed_folder.path());
  // The same shards in another order; sums of two ranks do not depend on it.
  const test::Folder units_folder;
  expect_same_state(run_as("fsdp:dtype=bfloat16", options, 2, units_folder.path()).last,
                    mixed.last);
  EXPECT_NEAR(mixed.result.test.metrics["loss"], exact.result.test.metrics["loss"], 0.1);
  int masters = 0;
  for (const auto& [name, tensor] : mixed.last.optimizer) {
    EXPECT_NE(tensor.scalar_type(), torch::kBFloat16) << name;
    masters += name.starts_with("master/") ? 1 : 0;
  }
  int halves = 0;
  for (const auto& [name, tensor] : mixed.last.model)
    halves += tensor.scalar_type() == torch::kBFloat16 ? 1 : 0;
  EXPECT_EQ(masters, halves);
  EXPECT_GT(halves, 0);
}

INSTANTIATE_TEST_SUITE_P(Of,
                         ZeroZoo,
                         ::testing::Values("mlp:hidden=16",
                                           "cnn:width=4,hidden=16",
                                           "lenet",
                                           "lstm:hidden=12",
                                           "transformer"),
                         [](const auto& info) {
                           const std::string name = info.param;
                           return name.substr(0, name.find(':'));
                         });

TEST(ZeroMixed, TrainingResumesBitForBitAndOnOtherRanks) {
  const test::WithoutOneDnn plain;
  train::TrainOptions options = small_run();
  options.optimizer = "adamw";
  options.batch_size = 12;
  options.epochs = 1;
  const std::string strategy = "zero1:dtype=bfloat16";
  const test::Folder whole_folder, broken_folder;
  const Ran whole = run_as(strategy, options, 3, whole_folder.path());
  const Ran broken = run_as(strategy, options, 3, broken_folder.path(), {}, 7);
  const std::filesystem::path at = broken.result.checkpoint;
  expect_same_state(run_as(strategy, options, 3, broken_folder.path(), at).last, whole.last);
  EXPECT_EQ(run_as("zero2:dtype=bfloat16", options, 2, broken_folder.path(), at).last.position,
            whole.last.position);
  EXPECT_THAT(test::error_of([&] { run_as("ddp", options, 2, broken_folder.path(), at); }),
              HasSubstr("(got bfloat16"));
}

TEST(ZeroState, OfAnotherModelIsRefusedByName) {
  run_ranks(2, [](ProcessGroup group) {
    Mixed mixed(group, mixed_nets(1)[0], 2);
    const auto refusal = [&](const std::string& name, const torch::Tensor& tensor) {
      return test::error_of([&] { mixed.optimizer.load_state({{{name, tensor}}, {}}); });
    };
    EXPECT_THAT(refusal("exp_avg/0.wieght", torch::zeros({33, 10})),
                HasSubstr("did you mean \"0.weight\""));
    EXPECT_THAT(refusal("exp_avg/0.weight", torch::zeros({33, 11})),
                HasSubstr("its shape is that of the parameter, [33, 10] (got [33, 11])"));
  });
}

}  // namespace
}  // namespace muster
