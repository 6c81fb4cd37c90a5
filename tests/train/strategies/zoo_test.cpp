// Strategies pipeline and fsdp with every model of the zoo: one device's losses and weights.
#include <algorithm>
#include <cctype>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/text.h"
#include "muster/models/model.h"
#include "muster/testing/run_ranks.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/replicas/strategy.h"

#include "tests/support/error_of.h"
#include "tests/train/task/own_fit.h"

namespace muster::train {
namespace {

using models::Classifier;
using models::ImageShape;
using models::ModelEntry;
using test::refusal_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kImages = 4, kSteps = 2, kRanks = 2;
constexpr double kOfRounding = 1e-5;
// A bias that begins with zeros, and whose gradient is all but zero, has no size to compare with.
constexpr double kLeastSize = 1e-2;

/// What makes a model small, and leaves nothing in it to chance; each has some of these.
ParamValues narrow(const ModelEntry& entry) {
  const ParamValues all{{"dropout", "0"},
                        {"embedding", "8"},
                        {"feedforward", "8"},
                        {"heads", "2"},
                        {"hidden", "8"},
                        {"layers", "2"},
                        {"width", "8"}};
  ParamValues own;
  for (const Param& param : entry.params)
    if (const auto found = all.find(std::string(param.name)); found != all.end())
      own.insert(*found);
  return own;
}

/// The smallest images that the model takes, in a size that patches divide.
ImageShape small_images(const ModelEntry& entry) {
  const int64_t size = std::max<int64_t>(entry.min_size, 8);
  const int64_t channels = entry.channels == 0 ? 1 : entry.channels;
  return {.channels = channels, .height = size, .width = size, .classes = 3};
}

bool has_batch_norm(const Classifier& model) {
  return std::ranges::any_of(model.modules(), [](const auto& module) {
    return module->name().find("BatchNorm") != std::string::npos;
  });
}

data::Batch images_for(const ImageShape& shape) {
  const at::Generator generator = at::detail::createCPUGenerator(3);
  const at::Tensor images =
      torch::randn({kImages, shape.channels, shape.height, shape.width}, generator);
  data::Batch batch{{{"x", images}, {"y", torch::arange(kImages).remainder(shape.classes)}}, {}};
  for (int64_t image = 0; image < kImages; ++image) batch.indices.push_back(image);
  return batch;
}

data::Batch rows_of(data::Batch batch, int64_t begin, int64_t end) {
  for (auto& [name, tensor] : batch.tensors) tensor = tensor.slice(0, begin, end);
  batch.indices = {batch.indices.begin() + begin, batch.indices.begin() + end};
  return batch;
}

std::vector<at::Tensor> state_of(const Classifier& model) {
  std::vector<at::Tensor> all;
  for (const auto& tensors : {model.parameters(), model.buffers()})
    for (const at::Tensor& tensor : tensors) all.push_back(tensor.detach().clone());
  return all;
}

void set_state(Classifier& model, const std::vector<at::Tensor>& state) {
  const torch::NoGradGuard no_grad;
  size_t next = 0;
  for (const auto& tensors : {model.parameters(), model.buffers()})
    for (const at::Tensor& tensor : tensors) tensor.copy_(state.at(next++));
}

FitPlan plan_for(const std::string& strategy, int world, const data::Batch& images) {
  FitOptions options = test::small_own();
  options.batch_size = kImages;
  options.strategy = strategy;
  const FitData data{.train = std::make_shared<data::TensorDataset>(images.tensors)};
  return test::planned(options, world, data, {});
}

struct Trained {
  std::vector<double> losses;       // of each step
  std::vector<at::Tensor> weights;  // and buffers
};

/// One rank's steps. `rows`: those of the images that it sees.
Trained steps_of_rank(const FitPlan& plan,
                      const std::shared_ptr<Classifier>& model,
                      const distributed::ProcessGroup& group,
                      const data::Batch& rows) {
  const auto step = [&](const data::Batch& batch) -> StepResult {
    return {.loss = torch::nn::functional::cross_entropy(model->forward(batch["x"]), batch["y"]),
            .values = {}};
  };
  const auto strategy = strategies()
                            .at(plan.strategy_name)
                            .make({.plan = plan,
                                   .module = model,
                                   .group = group,
                                   .generator = at::detail::createCPUGenerator(1)},
                                  plan.strategy_params);
  Trained trained;
  for (int64_t made = 0; made < kSteps; ++made) {
    strategy->optimizer().zero_grad();
    double loss = 0, weight = 0;
    if (strategy->trains_in_pieces()) {
      const auto size = [](const data::Batch& piece) { return static_cast<double>(piece.size()); };
      for (const auto& [result, own] : strategy->forward_backward(
               {.batch = rows, .pass = step, .weight = size, .step = made})) {
        loss += own * result.loss.item<double>();
        weight += own;
      }
    } else {
      const StepResult result = strategy->forward([&] { return step(rows); });
      result.loss.backward();
      loss = result.loss.item<double>();
      weight = 1;
    }
    strategy->optimizer().step();
    const at::Tensor all = torch::tensor({loss, weight}, torch::kDouble);
    if (group.world_size() > 1) group.all_reduce(all);
    trained.losses.push_back(all[0].item<double>() / all[1].item<double>());
  }
  tensor::NamedTensorList state;
  for (const auto& item : model->named_parameters()) state.emplace_back(item.key(), item.value());
  for (const auto& item : model->named_buffers()) state.emplace_back(item.key(), item.value());
  for (const auto& [name, tensor] : strategy->whole_state(state))
    if (group.rank() == 0) trained.weights.push_back(tensor.detach().clone());
  return trained;
}

class ZooModel : public ::testing::TestWithParam<std::string> {
 protected:
  ZooModel() {
    for (int rank = 0; rank < kRanks; ++rank) {
      torch::manual_seed(1);
      ranks_.push_back(entry_.make(shape_, narrow(entry_)));
    }
    start_ = state_of(*ranks_[0]);
  }

  /// Rank 0's. `splits`: each rank has images of its own.
  Trained trained(const std::string& strategy, int world, bool splits = false) {
    for (int rank = 0; rank < world; ++rank) {
      Classifier& model = *ranks_[static_cast<size_t>(rank)];
      set_state(model, start_);
      model.zero_grad();
    }
    Trained first;
    const int64_t share = kImages / world;
    testing::run_ranks(world, [&](const distributed::ProcessGroup& group) {
      const int64_t begin = splits ? group.rank() * share : 0;
      Trained own = steps_of_rank(plan_for(strategy, world, images_),
                                  ranks_[static_cast<size_t>(group.rank())],
                                  group,
                                  rows_of(images_, begin, splits ? begin + share : kImages));
      if (group.rank() == 0) first = std::move(own);
    });
    return first;
  }

  static void expect_equal_but_for_rounding(const Trained& cut, const Trained& one) {
    ASSERT_EQ(cut.losses.size(), one.losses.size());
    for (size_t step = 0; step < one.losses.size(); ++step)
      EXPECT_NEAR(cut.losses[step] / one.losses[step], 1, kOfRounding) << "step " << step;
    ASSERT_EQ(cut.weights.size(), one.weights.size());
    for (size_t i = 0; i < one.weights.size(); ++i) {
      const double size = std::max(kLeastSize, one.weights[i].abs().max().item().toDouble());
      const at::Tensor apart = (cut.weights[i] - one.weights[i]).abs().max();
      EXPECT_LE(apart.item().toDouble(), kOfRounding * size) << "tensor " << i;
    }
  }

  const ModelEntry& entry_ = models::models().at(GetParam());
  ImageShape shape_ = small_images(entry_);
  data::Batch images_ = images_for(shape_);
  std::vector<std::shared_ptr<Classifier>> ranks_;
  std::vector<at::Tensor> start_;
};

// A batch normalisation sees a micro-batch, and under fsdp what its rank sees: a model that has one
// gets one micro-batch, and all images on each rank, whose mean gradient is then that of one device.
TEST_P(ZooModel, TrainsInStagesAndInShardsAsOnOneDevice) {
  const auto units = std::ssize(ranks_[0]->chain());
  ASSERT_GE(units, kRanks) << "a model of the zoo is a row of parts (ModelPart)";
  const bool normalises = has_batch_norm(*ranks_[0]);
  const Trained one = trained("single", 1);
  {
    SCOPED_TRACE("pipeline");
    expect_equal_but_for_rounding(trained(concat("pipeline:split=0/",
                                                 (units + 1) / 2,
                                                 ",micro_batches=",
                                                 normalises ? 1 : kImages / 2),
                                          kRanks),
                                  one);
  }
  SCOPED_TRACE("fsdp");
  expect_equal_but_for_rounding(trained("fsdp", kRanks, /*splits=*/!normalises), one);
}

std::vector<std::string> all_models() {
  std::vector<std::string> names;
  for (const ModelEntry* entry : models::models()) names.emplace_back(entry->name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Of, ZooModel, ::testing::ValuesIn(all_models()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

/// As a model is that says nothing of parts.
class WholeModel final : public Classifier {
 public:
  WholeModel() { register_module("head", head_); }
  at::Tensor forward(at::Tensor images) override { return head_->forward(images.flatten(1)); }

 private:
  torch::nn::Linear head_{64, 3};
};

TEST(ModelWithoutParts, IsRefusedByNameWithAHint) {
  const auto refusal = [](const std::string& strategy) {
    const FitPlan plan = plan_for(strategy, kRanks, images_for({.height = 8, .width = 8}));
    WholeModel model;
    return refusal_of([&] {
      strategies()
          .at(plan.strategy_name)
          .check_module(model, plan, plan.strategy_params, plan.strategy_found);
    });
  };
  EXPECT_THAT(refusal("pipeline"),
              AllOf(HasSubstr("strategy pipeline: the model is a row of units"),
                    HasSubstr("WholeModel, which is not"),
                    HasSubstr("or take --strategy fsdp")));
  EXPECT_THAT(refusal("fsdp"),
              AllOf(HasSubstr("strategy fsdp: the model is made of parts"),
                    HasSubstr("WholeModel, which has none"),
                    HasSubstr("or take --strategy zero2")));
}

}  // namespace
}  // namespace muster::train
