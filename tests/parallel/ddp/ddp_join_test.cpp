// Ranks with different numbers of batches, and batches of different sizes.
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/json.h"
#include "muster/parallel/ddp/ddp.h"
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

std::vector<Model> joined_models(int ranks, const std::string& name = "mlp") {
  std::vector<Model> models;
  for (int rank = 0; rank < ranks; ++rank) {
    models.push_back(test::make_golden_model(name));
    models.back()->to(torch::kDouble);
  }
  return models;
}

std::vector<torch::Tensor> once(const GoldenModel& model) {
  std::vector<torch::Tensor> out;
  for (const auto& [name, tensor] : test::parameters_once(model)) out.push_back(tensor);
  return out;
}

torch::Tensor joined_loss(const torch::Tensor& scores, const torch::Tensor& y) {
  return torch::nn::functional::cross_entropy(scores, y);
}

TEST(DdpJoin, EndsWherePythonsJoinEnds) {
  const Json golden = test::read_kernel_golden("join");
  const std::vector<int64_t> batches = golden.at("batches");
  const int64_t rows = golden.at("rows");
  for (const std::string backend : {"thread", "shm", "gloo"}) {
    for (const Json& golden_case : golden.at("cases")) {
      const bool divide = golden_case.at("divide_by_initial_world_size");
      SCOPED_TRACE(golden_case.at("model").get<std::string>() + (divide ? " initial " : " left ") +
                   backend);
      const auto models = joined_models(3, golden_case.at("model"));
      run_ranks(
          3,
          [&](ProcessGroup group) {
            const Model model = models[group.rank()];
            DistributedDataParallel ddp(
                model,
                group,
                {.bucket_bytes_cap = 524,
                 .find_unused_parameters = golden_case.at("find_unused_parameters")});
            torch::optim::SGD optimizer(once(*model), torch::optim::SGDOptions(0.1).momentum(0.9));
            ddp.join(
                [&] {
                  for (int64_t step = 0; step < batches[group.rank()]; ++step) {
                    const auto part =
                        test::golden_batch(step, torch::kDouble).rows(group.rank() * rows, rows);
                    optimizer.zero_grad();
                    joined_loss(ddp->forward(part.x), part.y).backward();
                    optimizer.step();
                  }
                },
                {.divide_by_initial_world_size = divide});
          },
          {.backend = backend});
      for (const Model& model : models) {
        for (const auto& [name, tensor] : test::parameters_once(*model)) {
          const torch::Tensor difference =
              tensor.detach().reshape(-1) - test::flat(golden_case.at("final_parameters").at(name));
          EXPECT_LE(difference.abs().max().item<double>(), golden.at("tolerance").get<double>())
              << name;
        }
      }
    }
  }
}

/// Rows of a rank's batch in a step; nothing where it has ended.
using Shares = std::vector<std::vector<int64_t>>;  // [step][rank]

/// Plain training on all rows of each step, in the ranks' order.
Model train_whole(const Shares& shares) {
  const Model model = joined_models(1)[0];
  torch::optim::SGD optimizer(model->parameters(), 0.5);
  for (size_t step = 0; step < shares.size(); ++step) {
    const int64_t rows = std::accumulate(shares[step].begin(), shares[step].end(), int64_t{0});
    const auto part = test::golden_batch(static_cast<int64_t>(step), torch::kDouble).rows(0, rows);
    optimizer.zero_grad();
    joined_loss(model->forward(part.x), part.y).backward();
    optimizer.step();
  }
  return model;
}

test::GoldenBatch share_of_rank(const Shares& shares, size_t step, int rank) {
  const auto& rows = shares[step];
  const int64_t from = std::accumulate(rows.begin(), rows.begin() + rank, int64_t{0});
  return test::golden_batch(static_cast<int64_t>(step), torch::kDouble).rows(from, rows[rank]);
}

void expect_equal(const GoldenModel& ours, const GoldenModel& whole) {
  for (const auto& item : whole.named_parameters()) {
    EXPECT_LE((ours.named_parameters()[item.key()] - item.value()).abs().max().item<double>(),
              1e-12)
        << item.key();
  }
}

TEST(DdpWeigh, UnevenSharesGiveTheGradientOfTheWholeBatch) {
  const Shares shares{{4, 4, 4, 4}, {7, 1, 2, 3}, {0, 5, 0, 1}, {0, 0, 0, 2}};
  const Model whole = train_whole(shares);
  for (const std::string backend : {"thread", "shm", "gloo"}) {
    for (const bool total_known : {false, true}) {
      const auto models = joined_models(4);
      run_ranks(4,
                [&](ProcessGroup group) {
                  const Model model = models[group.rank()];
                  DistributedDataParallel ddp(model, group);
                  torch::optim::SGD optimizer(model->parameters(), 0.5);
                  for (size_t step = 0; step < shares.size(); ++step) {
                    const auto part = share_of_rank(shares, step, group.rank());
                    const int64_t rows = part.x.size(0);
                    optimizer.zero_grad();
                    const torch::Tensor loss = joined_loss(ddp->forward(part.x), part.y);
                    const torch::Tensor weighted =
                        total_known
                            ? ddp.weigh(loss,
                                        rows,
                                        std::accumulate(
                                            shares[step].begin(), shares[step].end(), int64_t{0}))
                            : ddp.weigh(loss, rows);
                    EXPECT_FALSE(weighted.isnan().item<bool>());
                    weighted.backward();
                    optimizer.step();
                  }
                },
                {.backend = backend});
      for (const Model& model : models) expect_equal(*model, *whole);
    }
  }
}

TEST(DdpWeigh, AStepWithoutSamplesIsRefusedOnEveryRank) {
  const auto models = joined_models(2);
  run_ranks(2, [&](ProcessGroup group) {
    const DistributedDataParallel ddp(models[group.rank()], group);
    EXPECT_THAT(error_of([&] { ddp.weigh(torch::ones({}), 0); }), HasSubstr("0 of 0"));
    EXPECT_THAT(error_of([&] { ddp.weigh(torch::ones({}), 3, 2); }), HasSubstr("3 of 2"));
  });
}

TEST(DdpJoin, WeightedStepsAreMeansOverTheSamplesOfTheRanksThatAreLeft) {
  const Shares shares{{4, 4, 4}, {1, 3, 6}, {0, 2, 9}, {0, 0, 5}};
  const Model whole = train_whole(shares);
  for (const bool divide : {true, false}) {
    for (const std::string hook : {"none", "powersgd:rank=64,start=1,min_compression_rate=0"}) {
      const auto models = joined_models(3);
      run_ranks(3, [&](ProcessGroup group) {
        const Model model = models[group.rank()];
        DistributedDataParallel ddp(model, group, {.bucket_bytes_cap = 524, .comm_hook = hook});
        torch::optim::SGD optimizer(model->parameters(), 0.5);
        ddp.join(
            [&] {
              for (size_t step = 0; step < shares.size(); ++step) {
                const auto part = share_of_rank(shares, step, group.rank());
                if (part.x.size(0) == 0) return;
                optimizer.zero_grad();
                ddp.weigh(joined_loss(ddp->forward(part.x), part.y), part.x.size(0)).backward();
                optimizer.step();
              }
            },
            {.divide_by_initial_world_size = divide, .weighted = true});
        expect_equal(*model, *whole);
      });
    }
  }
}

TEST(DdpJoin, AccumulationAndEvaluationWithinItAndTrainingAfterIt) {
  const auto models = joined_models(3),
             alones = joined_models(3);  // drawn before there are threads
  run_ranks(3, [&](ProcessGroup group) {
    const Model model = models[group.rank()];
    DistributedDataParallel ddp(model, group);
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    const auto step = [&](int64_t index) {
      optimizer.zero_grad();
      for (int64_t micro = 0; micro < 2; ++micro) {
        const auto scope = ddp.accumulate(micro, 2);
        const auto part = test::golden_batch(index, torch::kDouble).rows(4 * micro, 4);
        (joined_loss(ddp->forward(part.x), part.y) / 2).backward();
      }
      optimizer.step();
    };
    ddp.join(
        [&] {
          for (int64_t index = 0; index < 2 * group.rank(); ++index) step(index);
          const torch::NoGradGuard no_grad;
          if (group.rank() == 2) ddp->forward(test::golden_batch(0, torch::kDouble).x);
        },
        {.divide_by_initial_world_size = false});
    // All ranks had the same batches and divided by those left: as one rank alone.
    const Model alone = alones[group.rank()];
    torch::optim::SGD sgd(alone->parameters(), 0.1);
    const auto alone_step = [&](int64_t index) {
      const auto part = test::golden_batch(index, torch::kDouble).rows(0, 8);
      sgd.zero_grad();
      joined_loss(alone->forward(part.x), part.y).backward();
      sgd.step();
    };
    for (int64_t index = 0; index < 4; ++index) alone_step(index);
    expect_equal(*model, *alone);
    step(5);
    alone_step(5);
    expect_equal(*model, *alone);
    EXPECT_THAT(error_of([&] { ddp.join([&] { ddp.join([] {}); }); }),
                HasSubstr("join within join"));
  });
}

TEST(DdpJoin, EveryRankThrowsWhenOneEndsIfAskedTo) {
  const auto models = joined_models(3);
  std::vector<std::string> errors(3);
  std::vector<int> steps(3);
  run_ranks(3, [&](ProcessGroup group) {
    DistributedDataParallel ddp(models[group.rank()], group);
    errors[group.rank()] = error_of([&] {
      ddp.join(
          [&] {
            for (int64_t index = 0; index < (group.rank() == 1 ? 2 : 5); ++index) {
              const auto part = test::golden_batch(index, torch::kDouble);
              joined_loss(ddp->forward(part.x), part.y).backward();
              ++steps[group.rank()];
            }
          },
          {.throw_on_early_termination = true});
    });
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error, HasSubstr("rank 1 has no more batches"));
  EXPECT_EQ(steps, (std::vector<int>{2, 2, 2}));
}

TEST(DdpJoin, EqualNumbersOfBatchesChangeNothingAndThrowNothing) {
  const auto models = joined_models(2), plain = joined_models(2);
  run_ranks(2, [&](ProcessGroup group) {
    for (const bool joined : {true, false}) {
      const Model model = (joined ? models : plain)[group.rank()];
      DistributedDataParallel ddp(model, group);
      torch::optim::SGD optimizer(model->parameters(), 0.1);
      const auto body = [&] {
        for (int64_t index = 0; index < 3; ++index) {
          const auto part = test::golden_batch(index, torch::kDouble).rows(8 * group.rank(), 8);
          optimizer.zero_grad();
          joined_loss(ddp->forward(part.x), part.y).backward();
          optimizer.step();
        }
      };
      if (joined) {
        ddp.join(body, {.throw_on_early_termination = true});
        ddp.join([] {});
      } else {
        body();
      }
    }
    for (size_t i = 0; i < models[0]->parameters().size(); ++i)
      EXPECT_TRUE(torch::equal(models[group.rank()]->parameters()[i],
                               plain[group.rank()]->parameters()[i]));
  });
}

TEST(DdpJoin, WhatTheBodyThrowsPassesThroughAndReleasesTheOthers) {
  const auto models = joined_models(2);
  const std::string error = error_of([&] {
    run_ranks(2, [&](ProcessGroup group) {
      DistributedDataParallel ddp(models[group.rank()], group);
      ddp.join([&] {
        const auto batch = test::golden_batch(0, torch::kDouble);
        joined_loss(ddp->forward(batch.x), batch.y).backward();
        if (group.rank() == 1) throw usage_error({.refused = "a torn file"});
      });
    });
  });
  EXPECT_THAT(error, HasSubstr("rank 1: a torn file"));
}

struct CountedImpl : torch::nn::Module {
  CountedImpl() {
    line = register_module("line", torch::nn::Linear(2, 1));
    seen = register_buffer("seen", torch::zeros({1}));
  }
  torch::Tensor forward(torch::Tensor x) {
    seen += x.mean().detach();
    return line(x);
  }
  torch::nn::Linear line{nullptr};
  torch::Tensor seen;
};
TORCH_MODULE(Counted);

TEST(DdpJoin, BuffersAreThoseOfTheHighestRankAtWork) {
  std::vector<Counted> nets{Counted(), Counted(), Counted()};
  run_ranks(3, [&](ProcessGroup group) {
    Counted net = nets[group.rank()];
    DistributedDataParallel ddp(net, group);
    const std::vector<int> batches{3, 2, 1};
    ddp.join([&] {
      for (int step = 0; step < batches[group.rank()]; ++step)
        ddp->forward(torch::full({1, 2}, 1.0 + group.rank())).sum().backward();
    });
    // The second step starts from rank 1's 2, the third from rank 0's 2 + 1.
    EXPECT_EQ(net->seen.item<float>(), 4);
  });
}

}  // namespace
}  // namespace muster
