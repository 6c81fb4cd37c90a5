// Dropout and weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/models/layers/dropout.h"
#include "muster/models/model.h"
#include "muster/models/weights.h"

namespace muster::models {
namespace {

using ::testing::HasSubstr;
using Weights = std::vector<std::pair<std::string, at::Tensor>>;

TEST(Dropout, WithAndWithoutAGeneratorGivesTheMasksOfLibTorchBitForBit) {
  const torch::Tensor strided = torch::rand({4, 5, 6}).transpose(0, 1);
  for (const torch::Tensor& x :
       {torch::rand({33}), torch::rand({7, 9}).to(torch::kDouble), strided}) {
    for (const double p : {0.1, 0.5, 0.9, 1.0}) {
      torch::manual_seed(4);
      const torch::Tensor expected = torch::nn::functional::dropout(
          x, torch::nn::functional::DropoutFuncOptions().p(p).training(true));
      DropoutImpl dropout(p);
      torch::manual_seed(4);
      EXPECT_TRUE(dropout.forward(x).equal(expected)) << p;
      dropout.set_generator(torch::make_generator<at::CPUGeneratorImpl>(4));
      EXPECT_TRUE(dropout.forward(x).equal(expected)) << p << " from its generator";
      dropout.set_generator({});
      torch::manual_seed(4);
      EXPECT_TRUE(dropout.forward(x).equal(expected)) << p << " after it was taken away";
    }
  }
}

TEST(Dropout, ItsGradientIsItsMask) {
  DropoutImpl dropout(0.25);
  dropout.set_generator(torch::make_generator<at::CPUGeneratorImpl>(1));
  const torch::Tensor x = torch::ones({100}, torch::requires_grad());
  const torch::Tensor y = dropout.forward(x);
  y.sum().backward();
  EXPECT_TRUE(x.grad().equal(y.detach()));
  const auto kept = (y != 0).sum().item<int64_t>();
  EXPECT_GT(kept, 50);
  EXPECT_LT(kept, 95);
}

TEST(Dropout, LeavesItsInputAloneInEvalModeAndRefusesShares) {
  DropoutImpl dropout(0.5);
  dropout.eval();
  const torch::Tensor x = torch::rand({5});
  EXPECT_TRUE(dropout.forward(x).is_same(x));
  for (const double bad : {-0.1, 1.1, std::nan("")}) EXPECT_THROW(DropoutImpl{bad}, Error);
}

Weights state_of(const torch::nn::Module& model) {
  Weights state;
  for (const auto& item : model.named_parameters())
    state.emplace_back(item.key(), item.value().detach().clone());
  for (const auto& item : model.named_buffers())
    state.emplace_back(item.key(), item.value().clone());
  return state;
}

std::shared_ptr<Classifier> small_cnn() {
  return make_model("cnn", {.height = 8, .width = 8}, {{"width", "2"}, {"hidden", "3"}});
}

std::string refusal(torch::nn::Module& model, const Weights& weights) {
  try {
    load_weights(model, weights);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Weights, MayLackNumBatchesTrackedAndMayBeOfAnotherPrecision) {
  const auto from = small_cnn(), to = small_cnn();
  to->forward(torch::rand({2, 1, 8, 8}));
  Weights weights;
  for (auto& [name, tensor] : state_of(*from)) {
    if (!name.ends_with("num_batches_tracked"))
      weights.emplace_back(name, tensor.to(torch::kDouble));
  }
  load_weights(*to, weights);
  EXPECT_TRUE(
      to->named_parameters()["conv2.weight"].equal(from->named_parameters()["conv2.weight"]));
  EXPECT_TRUE(to->named_buffers()["bn1.running_var"].equal(torch::ones({2})));
  EXPECT_EQ(to->named_buffers()["bn1.num_batches_tracked"].item<int64_t>(), 1);
}

TEST(Weights, ThatDoNotFitAreRefusedByNameAndNothingChanges) {
  const auto model = small_cnn();
  const Weights before = state_of(*model);
  Weights good = state_of(*small_cnn());
  const auto with = [&](size_t at, const std::string& name, const at::Tensor& tensor) {
    Weights changed = good;
    changed[at] = {name, tensor};
    return changed;
  };
  EXPECT_THAT(refusal(*model, with(8, good[8].first, torch::zeros({2}))),
              HasSubstr(good[8].first + ": the model has float32 [10, 3] (got float32 [2])"));
  EXPECT_THAT(refusal(*model, with(0, "conv1.wieght", good[0].second)),
              HasSubstr("did you mean \"conv1.weight\"?"));
  EXPECT_THAT(refusal(*model, with(0, "module.conv1.weight", good[0].second)),
              HasSubstr("save model.module.state_dict() in Python"));
  EXPECT_THAT(refusal(*model, with(0, "_orig_mod.conv1.weight", good[0].second)),
              HasSubstr("save model._orig_mod.state_dict() in Python"));
  EXPECT_THAT(refusal(*model, with(0, good[0].first, good[0].second.to(torch::kInt))),
              HasSubstr("got int32"));
  EXPECT_THAT(refusal(*model, with(0, good[1].first, good[1].second)), HasSubstr("given twice"));
  EXPECT_THAT(refusal(*model, Weights(good.begin() + 1, good.end())),
              HasSubstr("weights without " + good[0].first));
  EXPECT_THAT(refusal(*model, with(0, good[0].first, {})), HasSubstr("no tensor"));
  const Weights after = state_of(*model);
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(before[i].second.equal(after[i].second)) << before[i].first;
}

std::shared_ptr<Classifier> cnn_of(int64_t classes) {
  return make_model(
      "cnn", {.height = 8, .width = 8, .classes = classes}, {{"width", "2"}, {"hidden", "3"}});
}

TEST(WeightsButHead, ComeFromAModelOfOtherClassesAndLeaveTheHeadAsItWasDrawn) {
  for (const int64_t classes : {10, 7}) {  // as many, too: the head is new
    const auto from = cnn_of(7), to = cnn_of(classes);
    EXPECT_EQ(head_of(*to), "fc2");
    const Weights given = state_of(*from), drawn = state_of(*to);
    load_weights_but_head(*to, given);
    const Weights after = state_of(*to);
    for (size_t i = 0; i < after.size(); ++i) {
      const auto& [name, tensor] = after[i];
      EXPECT_TRUE(tensor.equal(name.starts_with("fc2.") ? drawn[i].second : given[i].second))
          << name;
    }
  }
}

TEST(WeightsButHead, MayLackTheHeadAndNothingElse) {
  const auto to = cnn_of(4);
  Weights given = state_of(*cnn_of(7));
  std::erase_if(given, [](const auto& item) { return item.first.starts_with("fc2."); });
  load_weights_but_head(*to, given);
  const auto fc1 = std::find_if(
      given.begin(), given.end(), [](const auto& item) { return item.first == "fc1.weight"; });
  EXPECT_TRUE(to->named_parameters()["fc1.weight"].equal(fc1->second));
  const auto refused = [&](const Weights& weights) {
    try {
      load_weights_but_head(*to, weights);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  Weights other = given;
  other[0].second = torch::zeros({3, 1, 3, 3});
  EXPECT_THAT(refused(other), HasSubstr("weights conv1.weight"));
  EXPECT_THAT(refused(Weights(given.begin() + 1, given.end())),
              HasSubstr("weights without conv1.weight"));
  given.emplace_back("fc3.weight", torch::zeros({2}));
  EXPECT_THAT(refused(given), HasSubstr("fc3.weight"));
}

TEST(Weights, OfOtherClassesAreRefusedWithTheCallThatTakesThem) {
  EXPECT_THAT(refusal(*cnn_of(4), state_of(*cnn_of(7))), HasSubstr("load_weights_but_head()"));
}

}  // namespace
}  // namespace muster::models
