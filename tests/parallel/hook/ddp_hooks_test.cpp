// Communication hooks: PyTorch's numbers, error budgets, state, hooks of users.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/json.h"
#include "muster/parallel/ddp/ddp.h"
#include "muster/parallel/hook/comm_hook.h"
#include "muster/testing/run_ranks.h"

#include "tests/parallel/golden_models.h"
#include "tests/support/error_of.h"
#include "tests/support/kernel_golden.h"

namespace muster {
namespace {
using distributed::ProcessGroup;
using muster::testing::run_ranks;
using parallel::DistributedDataParallel;
using test::error_of;
using test::GoldenModel;
using ::testing::HasSubstr;

using Model = std::shared_ptr<GoldenModel>;

std::vector<Model> models_of(int ranks, torch::Dtype dtype, const std::string& name = "mlp") {
  std::vector<Model> models;
  for (int rank = 0; rank < ranks; ++rank) {
    models.push_back(test::make_golden_model(name));
    models.back()->to(dtype);
  }
  return models;
}

std::vector<torch::Tensor> once(GoldenModel& model) {
  std::vector<torch::Tensor> out;
  for (const auto& [name, tensor] : test::parameters_once(model)) out.push_back(tensor);
  return out;
}

/// A step's share of a rank: forward, backward.
void backward_of(DistributedDataParallel<Model>& ddp, int64_t step, torch::Dtype dtype) {
  const int64_t rows = 16 / ddp.group().world_size();
  const auto part = test::golden_batch(step, dtype).rows(ddp.group().rank() * rows, rows);
  torch::nn::functional::cross_entropy(ddp->forward(part.x), part.y).backward();
}

std::string hook_spec(const Json& golden_case) {
  if (!golden_case.contains("powersgd")) return golden_case.at("name");
  const Json& python = golden_case.at("powersgd");
  const auto flag = [&](const char* name) {
    return python.at(name).get<bool>() ? "true" : "false";
  };
  return "powersgd:rank=" + python.at("matrix_approximation_rank").dump() +
         ",start=" + python.at("start_powerSGD_iter").dump() +
         ",min_compression_rate=" + python.at("min_compression_rate").dump() +
         ",error_feedback=" + flag("use_error_feedback") + ",warm_start=" + flag("warm_start") +
         ",epsilon=" + python.at("orthogonalization_epsilon").dump() +
         ",seed=" + python.at("random_seed").dump();
}

TEST(CommHook, EndsWherePythonsHooksEnd) {
  const Json golden = test::read_kernel_golden("comm_hooks");
  for (const std::string backend : {"thread", "shm", "gloo"}) {
    for (const Json& golden_case : golden.at("cases")) {
      SCOPED_TRACE(golden_case.at("name").get<std::string>() + " " + backend);
      const auto dtype = golden_case.at("dtype") == "float64" ? torch::kDouble : torch::kFloat;
      const auto models = models_of(2, dtype);
      run_ranks(2,
                [&](ProcessGroup group) {
                  const Model model = models[group.rank()];
                  DistributedDataParallel ddp(model, group, {.comm_hook = hook_spec(golden_case)});
                  torch::optim::SGD optimizer(model->parameters(),
                                              torch::optim::SGDOptions(0.1).momentum(0.9));
                  for (int64_t step = 0; step < golden.at("steps").get<int64_t>(); ++step) {
                    optimizer.zero_grad();
                    backward_of(ddp, step, dtype);
                    optimizer.step();
                  }
                },
                {.backend = backend});
      for (const Model& model : models) {
        for (const auto& [name, tensor] : test::parameters_once(*model)) {
          const double tolerance = golden_case.at("tolerance");
          const torch::Tensor difference = tensor.detach().to(torch::kDouble).reshape(-1) -
                                           test::flat(golden_case.at("final_parameters").at(name));
          EXPECT_LE(difference.abs().max().item<double>(), tolerance) << name;
          const torch::Tensor gradient = tensor.grad().to(torch::kDouble).reshape(-1) -
                                         test::flat(golden_case.at("last_gradients").at(name));
          EXPECT_LE(gradient.abs().max().item<double>(), tolerance) << "gradient of " << name;
        }
      }
    }
  }
}

/// Gradients of one step by name, of every rank on its own and as averaged by DDP with the hook.
struct Averages {
  std::vector<std::map<std::string, torch::Tensor>> own, averaged;
};

Averages averages_of(const std::string& hook, int ranks, torch::Dtype dtype, int steps = 2) {
  const auto models = models_of(ranks, dtype);
  Averages out;
  out.own.resize(static_cast<size_t>(ranks));
  out.averaged.resize(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](ProcessGroup group) {
    const Model model = models[group.rank()];
    DistributedDataParallel ddp(
        model, group, {.bucket_bytes_cap = 524, .first_bucket_bytes_cap = 200, .comm_hook = hook});
    for (int step = 0; step < steps; ++step) {
      ddp.zero_grad();
      {
        const auto pause = ddp.no_sync();
        backward_of(ddp, step, dtype);
      }
      for (const auto& [name, tensor] : test::parameters_once(*model))
        out.own[group.rank()][name] = tensor.grad().clone();
      ddp.zero_grad();
      backward_of(ddp, step, dtype);
    }
    for (const auto& [name, tensor] : test::parameters_once(*model))
      out.averaged[group.rank()][name] = tensor.grad().clone();
  });
  return out;
}

class HalfHook : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(HalfHook, StaysWithinItsErrorBudget) {
  const auto& [hook, ranks] = GetParam();
  const double roundings = (ranks + 1) * (hook == "fp16" ? 0x1p-11 : 0x1p-8);
  const Averages step = averages_of(hook, ranks, torch::kFloat);
  bool lossy = false;
  for (const auto& [name, averaged] : step.averaged[0]) {
    torch::Tensor mean = torch::zeros_like(averaged), size = torch::zeros_like(averaged);
    for (const auto& own : step.own) {
      mean += own.at(name) / ranks;
      size += own.at(name).abs() / ranks;
    }
    const torch::Tensor budget = size * roundings + 6e-8 * ranks;  // fp16's smallest step
    EXPECT_TRUE(((averaged - mean).abs() <= budget).all().item<bool>()) << name;
    lossy = lossy || !torch::equal(averaged, mean);
    for (const auto& other : step.averaged) EXPECT_TRUE(torch::equal(other.at(name), averaged));
  }
  EXPECT_TRUE(lossy) << "gradients have travelled in full width";
}

INSTANTIATE_TEST_SUITE_P(Ranks,
                         HalfHook,
                         ::testing::Combine(::testing::Values("fp16", "bf16"),
                                            ::testing::Values(1, 2, 3, 4)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" +
                                  std::to_string(std::get<1>(info.param)) + "_ranks";
                         });

TEST(CommHook, HalfPrecisionSumsDoNotOverflowWhereEachGradientDoesNot) {
  run_ranks(4, [](ProcessGroup group) {
    const torch::Tensor w = torch::ones({4}).requires_grad_();
    c10d::GradBucket bucket(0, 1, torch::full({4}, 60000.0), {0}, {4}, {w.sizes()}, {w}, {});
    const auto hook = parallel::make_comm_hook("fp16", group);
    const auto reduction = hook->reduce(bucket);
    reduction.future()->wait();
    const auto sum = reduction.future()->value().toTensorVector().at(0);
    EXPECT_TRUE(torch::allclose(reduction.epilogue()(sum), torch::full({4}, 60000.0)));
  });
}

TEST(PowerSgd, WithAsManyColumnsAsTheMatrixTheMeanIsExact) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const Averages step = averages_of("powersgd:rank=64,start=0,min_compression_rate=0",
                                      ranks,
                                      torch::kDouble,
                                      /*steps=*/3);
    for (const auto& [name, averaged] : step.averaged[0]) {
      torch::Tensor mean = torch::zeros_like(averaged);
      for (const auto& own : step.own) mean += own.at(name) / ranks;
      EXPECT_LE((averaged - mean).abs().max().item<double>(), 1e-12) << name << ' ' << ranks;
      for (const auto& other : step.averaged) EXPECT_TRUE(torch::equal(other.at(name), averaged));
    }
  }
}

/// Weights after each of `steps`, of which the first `before` are made by one wrapper and the rest
/// by another that goes on from its state.
std::vector<torch::Tensor> train_with_break(int64_t steps,
                                            int64_t before,
                                            const std::string& hook,
                                            bool find_unused = false) {
  const auto models = models_of(2, torch::kFloat);
  std::vector<torch::Tensor> weights;
  run_ranks(2, [&](ProcessGroup group) {
    const Model model = models[group.rank()];
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    const parallel::DdpOptions options{.bucket_bytes_cap = 524,
                                       .first_bucket_bytes_cap = 200,
                                       .find_unused_parameters = find_unused,
                                       .comm_hook = hook};
    parallel::NamedTensors state;
    const auto run = [&](int64_t from, int64_t to) {
      DistributedDataParallel ddp(model, group, options);
      ddp.load_state(state);
      for (int64_t step = from; step < to; ++step) {
        optimizer.zero_grad();
        backward_of(ddp, step, torch::kFloat);
        optimizer.step();
        if (group.rank() == 0)
          weights.push_back(torch::nn::utils::parameters_to_vector(once(*model)).detach().clone());
      }
      state = ddp.state();
    };
    if (before > 0) {
      DistributedDataParallel first(model, group, options);
      state = first.state();
      run(0, before);
    } else {
      DistributedDataParallel first(model, group, options);
      state = first.state();
    }
    run(before, steps);
  });
  return weights;
}

bool same_ends(const std::string& hook, int64_t before, bool find_unused = false) {
  const auto straight = train_with_break(8, 0, hook, find_unused);
  const auto broken = train_with_break(8, before, hook, find_unused);
  return straight.size() == 8 &&
         std::ranges::equal(straight, broken, [](auto& a, auto& b) { return torch::equal(a, b); });
}

TEST(PowerSgd, ARunThatIsResumedFromItsStateEndsBitForBitAsAnUnbrokenOne) {
  const std::string hook = "powersgd:rank=2,start=2,min_compression_rate=1";
  const std::string cold = hook + ",warm_start=false";
  for (const int64_t before : {1, 3, 5}) EXPECT_TRUE(same_ends(hook, before)) << before;
  for (const int64_t before : {1, 2, 4})
    EXPECT_TRUE(same_ends(cold, before, /*find_unused=*/true)) << before;
  EXPECT_TRUE(same_ends(hook, 2, /*find_unused=*/true));
  // Qs drawn in the first step after the break, whose buckets are not those of the unbroken run:
  // what Note [PowerSGD] excepts.
  EXPECT_FALSE(same_ends(hook, 2));
  EXPECT_FALSE(same_ends(cold, 4));
  EXPECT_TRUE(same_ends(cold, 1));
}

TEST(PowerSgd, StateOfAnotherModelOrRankIsRefused) {
  const auto models = models_of(1, torch::kFloat);
  run_ranks(1, [&](ProcessGroup group) {
    DistributedDataParallel ddp(models[0], group, {.comm_hook = "powersgd:rank=2"});
    const auto scalar = [](int64_t value) { return torch::full({}, value, torch::kLong); };
    const parallel::NamedTensors good{{"hook/step", scalar(3)}, {"hook/draws", scalar(1)}};
    EXPECT_NO_THROW(ddp.load_state(good));
    for (const auto& [name, tensor] :
         parallel::NamedTensors{{"hook/q/fc1.weight", torch::zeros({8, 1})},
                                {"hook/error/fc1.weight", torch::zeros({8, 12})},
                                {"hook/error/fc9.weight", torch::zeros({12, 8})},
                                {"hook/q/fc1.bias", torch::zeros({12, 1})}}) {
      parallel::NamedTensors bad = good;
      bad.emplace_back(name, tensor);
      EXPECT_THAT(error_of([&] { ddp.load_state(bad); }), HasSubstr(name.substr(5)));
    }
    EXPECT_THAT(error_of([&] { ddp.load_state({{"hook/step", scalar(3)}}); }), HasSubstr("draws"));
    DistributedDataParallel plain(models[0], group);
    EXPECT_THAT(error_of([&] { plain.load_state(good); }), HasSubstr("has none"));
    EXPECT_THAT(error_of([&] {
                  plain.load_state({{"momentum", scalar(3)}});
                }),
                HasSubstr("momentum"));
  });
}

TEST(PowerSgd, RefusesOptionsThatMakeNoSense) {
  run_ranks(1, [](ProcessGroup group) {
    for (const std::string bad : {"rank=0", "start=-1", "min_compression_rate=-1", "epsilon=-1"})
      EXPECT_THAT(error_of([&] { parallel::make_comm_hook("powersgd:" + bad, group); }),
                  HasSubstr("powersgd"));
    EXPECT_THAT(error_of([&] { parallel::make_comm_hook("powersdg", group); }),
                HasSubstr("powersgd"));
    EXPECT_THAT(error_of([&] { parallel::make_comm_hook("fp16:rank=1", group); }),
                HasSubstr("rank"));
  });
}

TEST(PowerSgd, AGradientOfZerosStaysZeros) {
  // PyTorch divides by the norm of a column of zeros here, and its weights become NaN.
  const auto models = models_of(2, torch::kDouble);
  run_ranks(2, [&](ProcessGroup group) {
    DistributedDataParallel ddp(
        models[group.rank()], group, {.comm_hook = "powersgd:start=0,min_compression_rate=0"});
    const auto batch = test::golden_batch(0, torch::kDouble);
    for (int step = 0; step < 2; ++step) (ddp->forward(batch.x).sum() * 0).backward();
    for (const auto& parameter : ddp.parameters())
      EXPECT_TRUE(torch::equal(parameter.grad(), torch::zeros_like(parameter)));
  });
}

TEST(CommHook, ValuesOfAUsersHookBecomeTheGradients) {
  const auto models = models_of(2, torch::kFloat);
  run_ranks(2, [&](ProcessGroup group) {
    DistributedDataParallel ddp(
        models[group.rank()], group, {.bucket_bytes_cap = 524, .first_bucket_bytes_cap = 200});
    int calls = 0;
    ddp.register_comm_hook([&](c10d::GradBucket& bucket) {
      ++calls;
      auto future = c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get());
      future->markCompleted(torch::full_like(bucket.getBuffer(), 2.0));
      return parallel::BucketReduction(future);
    });
    for (int step = 0; step < 3; ++step) {
      ddp.zero_grad();
      backward_of(ddp, step, torch::kFloat);
      for (const auto& parameter : ddp.parameters())
        EXPECT_TRUE(torch::equal(parameter.grad(), torch::full_like(parameter, 2.0)));
    }
    EXPECT_GT(calls, 4);  // one bucket in the first step, several afterwards
    {
      const auto pause = ddp.no_sync();
      const int before = calls;
      backward_of(ddp, 3, torch::kFloat);
      EXPECT_EQ(calls, before);
    }
  });
}

TEST(CommHook, AUsersHookThatDividesAndSumsEqualsNone) {
  std::vector<std::vector<torch::Tensor>> gradients(2);
  for (const bool own : {false, true}) {
    const auto models = models_of(4, torch::kDouble);
    run_ranks(4, [&](ProcessGroup group) {
      DistributedDataParallel ddp(models[group.rank()], group, {.gradient_as_bucket_view = own});
      if (own) {
        ddp.register_comm_hook([group](c10d::GradBucket& bucket) {
          bucket.getBufferRef().div_(group.world_size());
          std::vector<at::Tensor> sum{bucket.getBuffer()};
          return parallel::BucketReduction(group.c10d()->allreduce(sum));
        });
      }
      backward_of(ddp, 0, torch::kDouble);
      if (group.rank() == 0) {
        for (const auto& parameter : ddp.parameters())
          gradients[own].push_back(parameter.grad().clone());
      }
    });
  }
  for (size_t i = 0; i < gradients[0].size(); ++i)
    EXPECT_TRUE(torch::equal(gradients[0][i], gradients[1][i]));
}

TEST(CommHook, ThereIsOne) {
  run_ranks(1, [](ProcessGroup group) {
    DistributedDataParallel ddp(test::make_golden_model("mlp"), group, {.comm_hook = "bf16"});
    EXPECT_THAT(error_of([&] { ddp.register_comm_hook(parallel::make_comm_hook("fp16", group)); }),
                HasSubstr("a second communication hook"));
  });
}

TEST(CommHook, OfAnUnknownNameIsRefusedAndTheModuleTrainsOn) {
  run_ranks(1, [](ProcessGroup group) {
    const Model model = test::make_golden_model("mlp");
    EXPECT_THAT(error_of([&] { DistributedDataParallel(model, group, {.comm_hook = "powersdg"}); }),
                HasSubstr("powersdg"));
    DistributedDataParallel ddp(model, group);
    backward_of(ddp, 0, torch::kFloat);
    EXPECT_TRUE(model->parameters()[0].grad().defined());
  });
}

TEST(CommHook, WhatAHookThrowsEndsBackward) {
  run_ranks(1, [](ProcessGroup group) {
    DistributedDataParallel ddp(test::make_golden_model("mlp"), group);
    ddp.register_comm_hook([](c10d::GradBucket&) -> parallel::BucketReduction {
      throw usage_error({.refused = "this bucket"});
    });
    EXPECT_THAT(error_of([&] { backward_of(ddp, 0, torch::kFloat); }), HasSubstr("this bucket"));
  });
}

TEST(CommHook, EveryHookLeavesUnusedParametersWithoutGradientAndRanksEqual) {
  for (const parallel::CommHookEntry* entry : parallel::comm_hooks()) {
    const auto models = models_of(3, torch::kFloat, "knotted");
    run_ranks(3, [&](ProcessGroup group) {
      const auto& model = models[group.rank()];
      DistributedDataParallel ddp(
          model, group, {.find_unused_parameters = true, .comm_hook = std::string(entry->name)});
      for (int step = 0; step < 2; ++step) backward_of(ddp, step, torch::kFloat);
      for (const auto& [name, parameter] : test::parameters_once(*model)) {
        ASSERT_EQ(parameter.grad().defined(), !name.starts_with("unused")) << name;
        if (!parameter.grad().defined()) continue;
        const torch::Tensor all = group.all_gather(parameter.grad());
        EXPECT_TRUE(torch::equal(all[0], all[group.rank()])) << entry->name << ' ' << name;
      }
    });
  }
}

}  // namespace
}  // namespace muster
