// What DistributedDataParallel notices before it goes wrong silently.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/ddp/bucket_tuner.h"
#include "muster/parallel/ddp/ddp.h"
#include "muster/parallel/module/desync_check.h"
#include "muster/parallel/module/tensor_hash.h"
#include "muster/testing/run_ranks.h"

#include "tests/parallel/golden_models.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::run_ranks;
using parallel::DistributedDataParallel;
using test::error_of;
using test::golden_loss;
using test::golden_models;
using test::GoldenModel;
using ::testing::HasSubstr;

using Model = std::shared_ptr<GoldenModel>;

TEST(DdpReducer, ThatCannotBeMadeAnewLeavesAnObjectThatSaysSo) {
  const auto models = golden_models(1);
  run_ranks(1, [&](ProcessGroup group) {
    const Model model = models[0];
    torch::Tensor loss;
    {
      DistributedDataParallel ddp(model, group, {.gradient_as_bucket_view = true});
      loss = golden_loss(ddp, 0);
      model->parameters()[0].mutable_grad() = torch::ones({7});  // fits into no bucket
      const parallel::NamedTensors state{{"bucket_bytes_cap", torch::full({}, 524, torch::kLong)}};
      EXPECT_THAT(error_of([&] { ddp.load_state(state); }), HasSubstr("size"));
      EXPECT_THAT(error_of([&] { golden_loss(ddp, 1); }), HasSubstr("make a new"));
      EXPECT_THAT(error_of([&] { ddp.join([] {}); }), HasSubstr("make a new"));
      ddp.zero_grad();
      loss.backward();
    }
    EXPECT_TRUE(model->parameters()[0].grad().defined());
  });
}

// --- options

TEST(DdpOptions, OutOfRangeAreRefusedByName) {
  const auto models = golden_models(1);
  run_ranks(1, [&](ProcessGroup group) {
    const auto refusal = [&](const parallel::DdpOptions& options) {
      return error_of([&] { DistributedDataParallel(models[0], group, options); });
    };
    EXPECT_THAT(refusal({.bucket_bytes_cap = -1}), HasSubstr("bucket_bytes_cap: at least 0"));
    EXPECT_THAT(refusal({.first_bucket_bytes_cap = 0}), HasSubstr("first_bucket_bytes_cap"));
    EXPECT_THAT(refusal({.parameters_to_ignore = {"fc9.weight"}}), HasSubstr("got fc9.weight"));
    EXPECT_THAT(refusal({.direct_bytes = -5}), HasSubstr("direct_bytes: at least 0"));
    EXPECT_THAT(refusal({.desync_check_steps = -1}), HasSubstr("desync_check_steps"));
    EXPECT_THAT(error_of([&] { DistributedDataParallel(Model(), group); }),
                HasSubstr("got a null pointer"));
  });
}

TEST(DdpOptions, OtherThanRank0sAreRefusedAtTheWrap) {
  const auto models = golden_models(2);
  const auto refusals = [&](const parallel::DdpOptions& zero, const parallel::DdpOptions& one) {
    return muster::testing::rank_errors(2, [&](ProcessGroup group) {
      DistributedDataParallel(models[group.rank()], group, group.rank() == 0 ? zero : one);
    });
  };
  EXPECT_THAT(refusals({.direct_bytes = 8}, {.direct_bytes = 9}),
              ::testing::Each(HasSubstr("rank 0 has option direct_bytes 8; rank 1 has option "
                                        "direct_bytes 9")));
  EXPECT_THAT(refusals({.comm_hook = "fp16"}, {.comm_hook = "bf16"}),
              ::testing::Each(HasSubstr("option comm_hook bf16")));
}

// --- values on the ranks

TEST(DdpDesync, NamesTheRankTheParameterAndTheStepWithinOneTurn) {
  const auto models = golden_models(3);
  std::vector<std::string> errors(3);
  run_ranks(3, [&](ProcessGroup group) {
    DistributedDataParallel ddp(models[group.rank()], group, {.desync_check_steps = 2});
    for (int64_t step = 0; step < 8 && errors[group.rank()].empty(); ++step) {
      if (step == 4 && group.rank() == 1) {
        const torch::NoGradGuard no_grad;
        models[1]->named_parameters()["fc2.bias"][3].add_(1e-7);
      }
      const std::string error = error_of([&] { golden_loss(ddp, step).backward(); });
      if (error != test::kNoError) errors[group.rank()] = error;
    }
  });
  for (const std::string& error : errors) {
    EXPECT_THAT(error,
                HasSubstr("rank 1 has another value of parameter fc2.bias than rank 0 at step 6"));
  }
}

TEST(DdpDesync, TakesParametersInTurns) {
  const auto parameters = [](int rank) {
    parallel::NamedTensors named;
    for (int i = 0; i < 5; ++i)
      named.emplace_back("p" + std::to_string(i), torch::full({4}, i == 3 ? rank == 2 : i));
    return named;
  };
  run_ranks(4, [&](ProcessGroup group) {
    // 32 bytes each: two a turn, so the third check is of p4 alone and the second of p2 and p3.
    parallel::DesyncCheck check(parameters(group.rank()), group, 3, 64);
    int64_t steps = 0;
    const std::string error = error_of([&] {
      for (; steps < 100; ++steps) {
        check.start_step();
        check.end_forward();
      }
    });
    EXPECT_THAT(error, HasSubstr("rank 2 has another value of parameter p3 than rank 0 at step 6"));
    EXPECT_EQ(steps, 5);
  });
}

TEST(DdpDesync, CanBeTurnedOff) {
  run_ranks(2, [](ProcessGroup group) {
    parallel::DesyncCheck check({{"p", torch::full({1}, group.rank())}}, group, 0);
    for (int step = 0; step < 300; ++step) {
      check.start_step();
      check.end_forward();
    }
  });
}

TEST(TensorHash, ChangesWithEveryBitAndWithTheOrder) {
  for (const auto hash : {&parallel::hash_tensor, &parallel::hash_on_device}) {
    const torch::Tensor data = torch::arange(0, 1003, torch::kInt).to(torch::kFloat);
    const auto of = [&](const torch::Tensor& tensor) { return hash(tensor, 1).item<int64_t>(); };
    const int64_t plain = of(data);
    EXPECT_EQ(of(data.clone()), plain);
    EXPECT_EQ(of(torch::stack({data, data}, 1).select(1, 0)), plain) << "other strides";
    EXPECT_NE(hash(data, 2).item<int64_t>(), plain);
    std::set<int64_t> seen{plain};
    for (const int64_t index : {0, 7, 8, 500, 1000, 1001, 1002}) {
      for (int bit = 0; bit < 32; ++bit) {
        torch::Tensor other = data.clone();
        other.data_ptr<float>()[index] = 0;
        reinterpret_cast<uint32_t*>(other.data_ptr<float>())[index] = uint32_t{1} << bit;
        EXPECT_TRUE(seen.insert(of(other)).second) << index << ' ' << bit;
      }
      torch::Tensor swapped = data.clone();
      std::swap(swapped.data_ptr<float>()[index], swapped.data_ptr<float>()[400]);
      EXPECT_TRUE(seen.insert(of(swapped)).second) << index;
    }
    EXPECT_NE(of(torch::zeros({4})), of(torch::zeros({5})));
    EXPECT_NO_THROW(of(torch::zeros({0})));
    EXPECT_NO_THROW(of(torch::zeros({3}, torch::kBFloat16)));
  }
}

// --- no_sync

TEST(DdpNoSync, AroundBackwardAloneIsRefused) {
  const auto models = golden_models(2);
  std::vector<std::string> errors(2);
  run_ranks(2, [&](ProcessGroup group) {
    DistributedDataParallel ddp(models[group.rank()], group);
    const torch::Tensor loss = golden_loss(ddp, 0);
    const auto pause = ddp.no_sync();
    errors[group.rank()] = error_of([&] { loss.backward(); });
    EXPECT_FALSE(models[group.rank()]->parameters()[0].grad().defined());
  });
  for (const std::string& error : errors) {
    EXPECT_THAT(error, HasSubstr("backward under no_sync after a forward outside of it"));
    EXPECT_THAT(error, HasSubstr("no_sync covers a forward and its backward, or neither"));
  }
}

TEST(DdpNoSync, AroundForwardAloneIsRefused) {
  const auto models = golden_models(2);
  std::vector<std::string> errors(2);
  run_ranks(2, [&](ProcessGroup group) {
    DistributedDataParallel ddp(models[group.rank()], group);
    golden_loss(ddp, 0).backward();
    torch::Tensor loss;
    {
      const auto pause = ddp.no_sync();
      loss = golden_loss(ddp, 1);
    }
    errors[group.rank()] = error_of([&] { loss.backward(); });
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error, HasSubstr("backward outside of no_sync after a forward under it"));
}

TEST(DdpNoSync, OneBackwardThroughForwardsOfBothKindsAverages) {
  const auto models = golden_models(2);
  run_ranks(2, [&](ProcessGroup group) {
    DistributedDataParallel ddp(models[group.rank()], group);
    torch::Tensor first;
    {
      const auto pause = ddp.no_sync();
      first = golden_loss(ddp, group.rank());
    }
    (first + golden_loss(ddp, 2 + group.rank())).backward();
    for (const auto& parameter : ddp.parameters()) {
      const torch::Tensor all = group.all_gather(parameter.grad());
      EXPECT_TRUE(torch::equal(all[0], all[1]));
    }
  });
}

TEST(DdpNoSync, OtherUsesOfTheOutputsAreNotTakenForMisuse) {
  const auto models = golden_models(2);
  run_ranks(2, [&](ProcessGroup group) {
    DistributedDataParallel ddp(models[group.rank()], group);
    torch::Tensor x = test::golden_batch(0, torch::kFloat).x.requires_grad_();
    const torch::Tensor y = ddp->forward(x);
    EXPECT_TRUE(torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true)[0].defined());
    y.sum().backward({}, /*keep_graph=*/true);
    EXPECT_TRUE(torch::autograd::grad({y.square().sum()}, {x})[0].defined());
    torch::Tensor late;
    {
      DistributedDataParallel short_lived(models[group.rank()], group);
      const auto pause = short_lived.no_sync();
      late = short_lived->forward(x);
    }
    EXPECT_NO_THROW(late.sum().backward());  // the wrapper is gone, the module trains alone
  });
}

TEST(DdpAccumulate, SynchronisesInTheLastMicroBatchAlone) {
  const auto models = golden_models(3);
  std::vector<torch::Tensor> expected;
  {
    const Model whole = test::make_golden_model("mlp");
    for (int64_t step = 0; step < 12; ++step) {
      const auto batch = test::golden_batch(step, torch::kFloat);
      (torch::nn::functional::cross_entropy(whole->forward(batch.x), batch.y) / 12).backward();
    }
    for (const auto& parameter : whole->parameters()) expected.push_back(parameter.grad());
  }
  run_ranks(3, [&](ProcessGroup group) {
    DistributedDataParallel ddp(models[group.rank()], group);
    int reductions = 0;
    ddp.register_comm_hook([&reductions, group](c10d::GradBucket& bucket) {
      ++reductions;
      std::vector<at::Tensor> sum{bucket.getBufferRef().div_(group.world_size())};
      return parallel::BucketReduction(group.c10d()->allreduce(sum));
    });
    for (int64_t micro = 0; micro < 4; ++micro) {
      const auto scope = ddp.accumulate(micro, 4);
      (golden_loss(ddp, 4 * group.rank() + micro) / 4).backward();
    }
    EXPECT_EQ(reductions, 1);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_LE((ddp.parameters()[i].grad() - expected[i]).abs().max().item<double>(), 1e-6);
    // Averaged before it is clipped: the norm is that of the whole batch's gradient, on every rank.
    const double norm = torch::nn::utils::parameters_to_vector(expected).norm().item<double>();
    EXPECT_NEAR(torch::nn::utils::clip_grad_norm_(ddp.parameters(), norm / 2), norm, 1e-6);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_LE((ddp.parameters()[i].grad() - expected[i] / 2).abs().max().item<double>(), 1e-6);
  });
}

// --- size of buckets

TEST(BucketTuner, TakesTheCapWhoseMedianStepIsFastestOnTheSlowestRank) {
  std::vector<int64_t> caps(2);
  run_ranks(2, [&](ProcessGroup group) {
    parallel::BucketTuner tuner(60 << 20);
    // Seconds of a step by cap: 5 MiB is best for rank 0, 25 MiB when the slower rank decides.
    const std::map<int64_t, double> seconds =
        group.rank() == 0 ? std::map<int64_t, double>{{1, 4.0}, {5, 1.0}, {25, 2.0}, {100, 3.0}}
                          : std::map<int64_t, double>{{1, 4.0}, {5, 9.0}, {25, 2.5}, {100, 3.0}};
    double now = 100;
    std::vector<int64_t> tried{tuner.cap() >> 20};
    int steps = 0;
    while (!tuner.done()) {
      ASSERT_LT(++steps, 100);
      if (tuner.start_step(now, group)) tried.push_back(tuner.cap() >> 20);
      // An outlier, such as a page fault or an evaluation between two steps, does not count.
      now += seconds.at(tuner.cap() >> 20) * (steps % 4 == 0 ? 50 : 1);
    }
    EXPECT_EQ(tried, (std::vector<int64_t>{1, 5, 25, 100, 25}));
    caps[group.rank()] = tuner.cap();
  });
  EXPECT_EQ(caps, (std::vector<int64_t>{25 << 20, 25 << 20}));
}

TEST(BucketTuner, AModelThatFitsInOneBucketNeedsNoSearch) {
  const parallel::BucketTuner tuner(100);
  EXPECT_TRUE(tuner.done());
  EXPECT_EQ(tuner.cap(), 1 << 20);
}

struct WideImpl : torch::nn::Module {
  WideImpl() {
    for (int i = 0; i < 3; ++i)
      register_module("fc" + std::to_string(i), torch::nn::Linear(700, 700));
  }
  torch::Tensor forward(torch::Tensor x) {
    for (const auto& child : children())
      x = torch::tanh(child->as<torch::nn::LinearImpl>()->forward(x));
    return x;
  }
};
TORCH_MODULE(Wide);

TEST(DdpBucketSize, SearchChangesNoGradientAndIsKeptInTheState) {
  std::vector<torch::Tensor> weights;
  for (const int64_t cap : {int64_t{25} << 20, parallel::kAutoBucketBytes}) {
    std::vector<Wide> nets;
    for (int rank = 0; rank < 2; ++rank) {
      torch::manual_seed(1);
      nets.emplace_back();
    }
    run_ranks(2, [&](ProcessGroup group) {
      Wide net = nets[group.rank()];
      DistributedDataParallel ddp(net, group, {.bucket_bytes_cap = cap});
      torch::optim::SGD optimizer(net->parameters(), 0.1);
      std::set<int64_t> caps;
      for (int step = 0; step < 24; ++step) {
        auto generator = torch::make_generator<at::CPUGeneratorImpl>(
            static_cast<uint64_t>(2 * step + group.rank()));
        optimizer.zero_grad();
        ddp->forward(torch::randn({2, 700}, generator)).square().mean().backward();
        optimizer.step();
        caps.insert(ddp.bucket_bytes_cap());
      }
      EXPECT_EQ(caps.size(), cap == parallel::kAutoBucketBytes ? 3U : 1U);
      if (group.rank() == 0) weights.push_back(nets[0]->parameters()[0].detach().clone());
      const auto state = ddp.state();
      ASSERT_EQ(state.size(), 1U);
      EXPECT_EQ(state[0].second.item<int64_t>(), ddp.bucket_bytes_cap());
      DistributedDataParallel again(net, group, {.bucket_bytes_cap = 123});
      again.load_state(state);
      EXPECT_EQ(again.bucket_bytes_cap(), ddp.bucket_bytes_cap());
    });
  }
  EXPECT_TRUE(torch::equal(weights[0], weights[1]));
}

}  // namespace
}  // namespace muster
