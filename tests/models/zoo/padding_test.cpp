// Padding changes nothing of what a model says of a sequence, of its gradients, or of how it is cut.
#include "muster/models/layers/padding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/models/zoo/lstm.h"
#include "muster/models/zoo/transformer.h"

#include "tests/support/error_of.h"

namespace muster::models {
namespace {

using ::testing::HasSubstr;
using ModelPtr = std::shared_ptr<Classifier>;

constexpr int64_t kPadding = 3, kVocabulary = 11, kLongest = 9, kClasses = 4;
const ImageShape kTokens{.height = 1,
                         .width = kLongest,
                         .classes = kClasses,
                         .vocabulary = kVocabulary,
                         .padding = kPadding};

std::vector<ModelPtr> token_models() {
  std::vector<ModelPtr> made;
  for (const auto& [name, params] : std::vector<std::pair<std::string, std::string>>{
           {"lstm", "hidden=6,embedding=5"},
           {"lstm", "hidden=6,embedding=5,layers=2,bidirectional=true"},
           {"lstm", "hidden=6,embedding=5,layers=2,bidirectional=true,dropout=0.1"},
           {"transformer", "width=8,heads=2,feedforward=12,dropout=0.1"},
           {"transformer", "width=8,heads=2,feedforward=12,layers=1,dropout=0"}}) {
    torch::manual_seed(2);
    made.push_back(make_model(name, kTokens, parse_param_values(params)));
    made.back()->to(torch::kDouble);
  }
  return made;
}

/// Of unlike lengths, one of them whole, one with the padding's id inside, one of nothing else.
torch::Tensor padded_ids() {
  torch::Tensor ids = torch::full({5, kLongest}, kPadding, torch::kLong);
  torch::manual_seed(4);
  const std::vector<int64_t> lengths{4, kLongest, 1, 6, 0};
  for (size_t row = 0; row < lengths.size(); ++row) {
    auto some = ids[static_cast<int64_t>(row)].narrow(0, 0, lengths[row]);
    some.copy_(torch::randint(4, kVocabulary, {lengths[row]}, torch::kLong));
  }
  ids[3][2] = kPadding;
  return ids;
}

torch::Tensor alone(const torch::Tensor& ids, int64_t row) {
  const auto length = lengths_without(ids, kPadding)[row].item<int64_t>();
  return ids.narrow(0, row, 1).narrow(1, 0, length);
}

TEST(Padding, LengthsEndBehindTheLastTokenThatIsNone) {
  const torch::Tensor lengths = lengths_without(padded_ids(), kPadding);
  EXPECT_TRUE(lengths.equal(torch::tensor({4, 9, 1, 6, 1}, torch::kLong)))
      << "one of nothing else has one";
  EXPECT_TRUE(mask_of(torch::tensor({1, 3}, torch::kLong), 3)
                  .equal(torch::tensor({{1, 0, 0}, {1, 1, 1}}).to(torch::kBool)));
}

TEST(Padding, ASampleAloneHasTheScoresThatItHasInABatch) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor ids = padded_ids();
  for (const ModelPtr& model : token_models()) {
    model->eval();
    const torch::Tensor together = model->forward(ids);
    EXPECT_EQ(together.sizes(), (at::IntArrayRef{ids.size(0), kClasses}));
    EXPECT_GT((together[0] - together[1]).abs().max().item<double>(), 1e-6);
    for (int64_t row = 0; row < ids.size(0); ++row) {
      const torch::Tensor by_itself = model->forward(alone(ids, row))[0];
      EXPECT_LT((together[row] - by_itself).abs().max().item<double>(), 1e-12) << row;
    }
  }
}

// Without dropout, whose masks are as large as the batch.
TEST(Padding, ABatchHasTheSumOfItsSamplesGradients) {
  const torch::Tensor ids = padded_ids();
  for (const ModelPtr& model : token_models()) {
    for (auto& module : model->modules())
      if (auto* dropout = module->as<DropoutImpl>()) dropout->eval();
    model->zero_grad();
    model->forward(ids).pow(2).sum().backward();
    std::vector<torch::Tensor> together;
    for (const torch::Tensor& weight : model->parameters())
      together.push_back(weight.grad().clone());
    model->zero_grad();
    for (int64_t row = 0; row < ids.size(0); ++row)
      model->forward(alone(ids, row)).pow(2).sum().backward();
    const auto weights = model->parameters();
    for (size_t i = 0; i < weights.size(); ++i)
      EXPECT_LT((weights[i].grad() - together[i]).abs().max().item<double>(), 1e-12) << i;
  }
}

TEST(Padding, TheLstmIsThatOfPackPaddedSequence) {
  torch::manual_seed(2);
  const LstmOptions options{
      .hidden = 6, .bidirectional = true, .vocabulary = kVocabulary, .embedding = 5, .padding = 3};
  Lstm model(kTokens, options);
  model->eval();
  const torch::NoGradGuard no_grad;
  torch::nn::LSTM peer(torch::nn::LSTMOptions(5, 6).batch_first(true).bidirectional(true));
  const auto ours = model->named_parameters();
  for (auto& weight : peer->named_parameters()) weight.value().copy_(ours["lstm." + weight.key()]);
  const torch::Tensor ids = padded_ids();
  const torch::Tensor vectors = torch::embedding(ours["embedding.weight"], ids);
  const auto packed = torch::nn::utils::rnn::pack_padded_sequence(
      vectors, lengths_without(ids, kPadding), /*batch_first=*/true, /*enforce_sorted=*/false);
  const auto [output, state] = peer->forward_with_packed_input(packed);
  const torch::Tensor hidden = std::get<0>(state);
  const torch::Tensor scores = torch::nn::functional::linear(
      torch::cat({hidden[0], hidden[1]}, 1), ours["fc.weight"], ours["fc.bias"]);
  EXPECT_TRUE(model->forward(ids).equal(scores));
}

TEST(Padding, TheTransformersLinksAreItsForward) {
  const torch::NoGradGuard no_grad;
  const ModelPtr model = token_models().back();
  model->eval();
  const auto chain = model->chain();
  ASSERT_EQ(chain.size(), 3U);
  std::vector<torch::Tensor> tensors{padded_ids()};
  for (const tensor::ChainedUnit& link : chain) tensors = link.forward(tensors);
  EXPECT_TRUE(tensors[0].equal(model->forward(padded_ids())));
  EXPECT_TRUE(model->parts().empty());
}

TEST(Padding, WithoutOneEveryIdIsAToken) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(2);
  ImageShape shape = kTokens;
  shape.padding = -1;
  const ModelPtr model = make_model("lstm", shape, {});
  const torch::Tensor ids = padded_ids();
  EXPECT_FALSE(model->forward(ids)[0].equal(model->forward(alone(ids, 0))[0]));
}

TEST(Padding, OtherModelsRefuseTokens) {
  EXPECT_THAT(test::refusal_of([] { make_model("cnn", kTokens); }),
              HasSubstr("models that do: lstm, transformer"));
}

}  // namespace
}  // namespace muster::models
