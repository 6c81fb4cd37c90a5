// Our DistributedDataParallel against Python's: same seeds, same steps, over every way to connect
// ranks. The expectations are tests/golden/ddp/golden.json, made by PyTorch.
#include <mutex>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/json.h"
#include "muster/parallel/ddp/ddp.h"
#include "muster/testing/run_ranks.h"

#include "tests/parallel/golden_models.h"
#include "tests/support/kernel_golden.h"

namespace muster {
namespace {

using parallel::DistributedDataParallel;
using test::GoldenModel;

const Json& golden() {
  static const Json data = test::read_kernel_golden("ddp");
  return data;
}

struct Outcome {
  std::vector<double> losses;
  std::map<std::string, torch::Tensor> gradients;  // after step 1; undefined where there is none
  std::map<std::string, torch::Tensor> parameters;
};

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const Json& spec,
                                                        std::vector<torch::Tensor> parameters) {
  if (spec.at("kind") == "sgd") {
    return std::make_unique<torch::optim::SGD>(
        std::move(parameters),
        torch::optim::SGDOptions(spec.at("lr")).momentum(spec.at("momentum")));
  }
  return std::make_unique<torch::optim::AdamW>(std::move(parameters),
                                               torch::optim::AdamWOptions(spec.at("lr"))
                                                   .betas({spec.at("beta1"), spec.at("beta2")})
                                                   .eps(spec.at("eps"))
                                                   .weight_decay(spec.at("weight_decay")));
}

parallel::DdpOptions ddp_options(const Json& python) {
  parallel::DdpOptions options;
  options.find_unused_parameters = python.at("find_unused_parameters");
  options.gradient_as_bucket_view = python.at("gradient_as_bucket_view");
  options.bucket_bytes_cap =
      static_cast<int64_t>(python.at("bucket_cap_mb").get<double>() * 1024 * 1024);
  return options;
}

/// Without a group: the plain module on the full batch, no wrapper.
Outcome train(const Json& golden_case,
              const Json& run,
              const std::optional<distributed::ProcessGroup>& group,
              const std::shared_ptr<GoldenModel>& model) {
  const auto dtype = run.at("dtype") == "float64" ? torch::kDouble : torch::kFloat;
  model->to(dtype);
  const auto named = test::parameters_once(*model);
  std::vector<torch::Tensor> parameters;
  for (const auto& [name, tensor] : named) parameters.push_back(tensor);
  const auto optimizer = make_optimizer(golden_case.at("optimizer"), parameters);
  std::optional<DistributedDataParallel<std::shared_ptr<GoldenModel>>> ddp;
  if (group) ddp.emplace(model, *group, ddp_options(golden_case.at("ddp")));

  const int64_t share = 16 / (group ? group->world_size() : 1),
                from = group ? group->rank() * share : 0;
  const int64_t micro_steps = golden_case.at("micro_steps"), rows = share / micro_steps;
  Outcome outcome;
  for (int64_t step = 0; step < golden_case.at("steps").get<int64_t>(); ++step) {
    const test::GoldenBatch batch = test::golden_batch(step, dtype);
    for (auto& parameter : parameters) parameter.mutable_grad() = torch::Tensor();
    double loss_sum = 0;
    for (int64_t micro = 0; micro < micro_steps; ++micro) {
      const auto part = batch.rows(from + micro * rows, rows);
      const auto one = [&] {
        const torch::Tensor scores = ddp ? (*ddp)->forward(part.x) : model->forward(part.x);
        const torch::Tensor loss =
            torch::nn::functional::cross_entropy(scores, part.y) / micro_steps;
        loss.backward();
        loss_sum += loss.item<double>();
      };
      if (ddp && micro + 1 < micro_steps) {
        const auto pause = ddp->no_sync();
        one();
      } else {
        one();
      }
    }
    outcome.losses.push_back(loss_sum);
    if (step == 0) {
      for (const auto& [name, tensor] : named)
        outcome.gradients[name] = tensor.grad().defined() ? tensor.grad().clone() : torch::Tensor();
    }
    optimizer->step();
  }
  for (const auto& [name, tensor] : named) outcome.parameters[name] = tensor.detach().clone();
  return outcome;
}

void expect_near(const torch::Tensor& ours,
                 const Json& expected,
                 double tolerance,
                 const std::string& what) {
  if (expected.is_null()) {
    EXPECT_FALSE(ours.defined()) << what << " has a gradient, Python's has none";
    return;
  }
  ASSERT_TRUE(ours.defined()) << what << " is undefined";
  const torch::Tensor flat = test::flat(expected);
  ASSERT_EQ(ours.numel(), flat.numel()) << what;
  EXPECT_LE((ours.to(torch::kDouble).reshape(-1) - flat).abs().max().item<double>(), tolerance)
      << what;
}

/// One run of one case, over one backend.
struct Cell {
  size_t golden_case, run;
  std::string backend;
};

std::vector<Cell> cells() {
  std::vector<Cell> all;
  for (size_t i = 0; i < golden().at("cases").size(); ++i) {
    for (size_t k = 0; k < golden().at("cases")[i].at("runs").size(); ++k) {
      for (const char* backend : {"thread", "shm", "gloo"}) all.push_back({i, k, backend});
    }
  }
  return all;
}

std::string cell_name(const ::testing::TestParamInfo<Cell>& info) {
  const Json& golden_case = golden().at("cases")[info.param.golden_case];
  const Json& run = golden_case.at("runs")[info.param.run];
  return golden_case.at("name").get<std::string>() + "_" + run.at("dtype").get<std::string>() +
         "_" + std::to_string(run.at("world").get<int>()) + "_ranks_" + info.param.backend;
}

class DdpGolden : public ::testing::TestWithParam<Cell> {};

TEST_P(DdpGolden, EndsWherePythonsDdpEnds) {
  const Json& golden_case = golden().at("cases")[GetParam().golden_case];
  const Json& run = golden_case.at("runs")[GetParam().run];
  const int world = run.at("world");
  // Built before the threads start: initial weights are drawn from the process's one generator.
  std::vector<std::shared_ptr<GoldenModel>> models;
  for (int rank = 0; rank < world; ++rank)
    models.push_back(test::make_golden_model(golden_case.at("model")));
  for (const auto& [name, tensor] : test::parameters_once(*models[0])) {
    expect_near(
        tensor.detach(), golden_case.at("initial_parameters").at(name), 0, "initial " + name);
  }
  std::vector<Outcome> outcomes(world);
  muster::testing::run_ranks(world,
                             [&](distributed::ProcessGroup group) {
                               outcomes[group.rank()] =
                                   train(golden_case, run, group, models[group.rank()]);
                             },
                             {.backend = GetParam().backend});

  const double tolerance = run.at("tolerance");
  for (int rank = 0; rank < world; ++rank) {
    const std::string who = "rank " + std::to_string(rank) + ": ";
    const std::vector<double> losses = run.at("loss_by_rank")[rank];
    ASSERT_EQ(outcomes[rank].losses.size(), losses.size());
    for (size_t step = 0; step < losses.size(); ++step)
      EXPECT_NEAR(outcomes[rank].losses[step], losses[step], tolerance) << who << "step " << step;
    for (const auto& [name, values] : run.at("gradients_after_step_1").items()) {
      expect_near(outcomes[rank].gradients[name], values, tolerance, who + "gradient of " + name);
    }
    for (const auto& [name, values] : run.at("final_parameters").items()) {
      expect_near(outcomes[rank].parameters[name], values, tolerance, who + name);
    }
    for (const auto& [name, tensor] : outcomes[rank].parameters) {
      EXPECT_TRUE(torch::equal(tensor, outcomes[0].parameters[name]))
          << who << name << " differs from rank 0's";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, DdpGolden, ::testing::ValuesIn(cells()), cell_name);

TEST(DdpBackends, ThatSumInTheOrderOfRanksGiveTheSameBits) {
  for (const Json& golden_case : golden().at("cases")) {
    for (const Json& run : golden_case.at("runs")) {
      const int world = run.at("world");
      std::vector<Outcome> over[2];
      for (const int k : {0, 1}) {
        std::vector<std::shared_ptr<GoldenModel>> models;
        for (int rank = 0; rank < world; ++rank)
          models.push_back(test::make_golden_model(golden_case.at("model")));
        over[k].resize(world);
        muster::testing::run_ranks(world,
                                   [&](distributed::ProcessGroup group) {
                                     over[k][group.rank()] =
                                         train(golden_case, run, group, models[group.rank()]);
                                   },
                                   {.backend = k == 0 ? "thread" : "shm"});
      }
      for (int rank = 0; rank < world; ++rank) {
        EXPECT_EQ(over[0][rank].losses, over[1][rank].losses);
        for (const auto& [name, tensor] : over[0][rank].parameters) {
          EXPECT_TRUE(torch::equal(tensor, over[1][rank].parameters.at(name)))
              << golden_case.at("name") << " rank " << rank << ": " << name;
        }
      }
    }
  }
}

// The must-hold of data parallel training, from our own two sides: n ranks on shares of a batch
// equal one rank on the whole.
class DdpAgainstOneRank
    : public ::testing::TestWithParam<std::tuple<int, std::string, std::string>> {};

TEST_P(DdpAgainstOneRank, GradientsAndParametersAreThoseOfTheFullBatch) {
  const int world =
      std::get<0>(GetParam());  // by name: clang 14 lets no lambda see a structured binding
  const std::string &backend = std::get<1>(GetParam()), &dtype = std::get<2>(GetParam());
  const Json golden_case = {{"optimizer", {{"kind", "sgd"}, {"lr", 0.1}, {"momentum", 0.9}}},
                            {"steps", 4},
                            {"micro_steps", 1},
                            {"ddp",
                             {{"find_unused_parameters", true},
                              {"gradient_as_bucket_view", false},
                              {"bucket_cap_mb", 0.0005}}}};
  const Json run = {{"dtype", dtype}};
  const auto outcomes_of = [&](int ranks) {
    std::vector<std::shared_ptr<GoldenModel>> models;
    for (int rank = 0; rank < ranks; ++rank) models.push_back(test::make_golden_model("knotted"));
    std::vector<Outcome> outcomes(ranks);
    muster::testing::run_ranks(ranks,
                               [&](distributed::ProcessGroup group) {
                                 outcomes[group.rank()] =
                                     train(golden_case, run, group, models[group.rank()]);
                               },
                               {.backend = backend});
    return outcomes;
  };
  const Outcome whole = train(golden_case, run, std::nullopt, test::make_golden_model("knotted"));
  ASSERT_TRUE(whole.gradients.at("head.weight").defined());
  const double tolerance = dtype == "float64" ? 1e-12 : 1e-6;
  for (const Outcome& outcome : outcomes_of(world)) {
    for (const auto& [name, tensor] : whole.parameters) {
      EXPECT_LE((outcome.parameters.at(name) - tensor).abs().max().item<double>(), tolerance)
          << name;
      const torch::Tensor& gradient = whole.gradients.at(name);
      ASSERT_EQ(outcome.gradients.at(name).defined(), gradient.defined()) << name;
      if (!gradient.defined()) continue;  // not used by this model's forward
      EXPECT_LE((outcome.gradients.at(name) - gradient).abs().max().item<double>(), tolerance)
          << "gradient of " << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks,
                         DdpAgainstOneRank,
                         ::testing::Combine(::testing::Values(2, 4),
                                            ::testing::Values("thread", "shm", "gloo"),
                                            ::testing::Values("float64", "float32")),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) + "_ranks_" +
                                  std::get<1>(info.param) + "_" + std::get<2>(info.param);
                         });

}  // namespace
}  // namespace muster
