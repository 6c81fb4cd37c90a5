// How samples become batches.
#include "muster/data/collate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/sets/sample_dataset.h"
#include "muster/data/sets/subset_dataset.h"
#include "muster/data/sets/tensor_dataset.h"

#include "tests/support/error_of.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using How = CollateRule::How;

Sample numbered(int64_t index, tensor::NamedTensorList tensors) {
  return {.tensors = std::move(tensors), .index = index};
}

std::vector<Sample> sentences() {
  return {numbered(4, {{"tokens", torch::tensor({1, 2, 3})}, {"label", torch::tensor(0)}}),
          numbered(1, {{"tokens", torch::tensor({7})}, {"label", torch::tensor(1)}})};
}

std::vector<std::string> names_of(const Batch& batch) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : batch.tensors) names.push_back(name);
  return names;
}

// torch.nn.utils.rnn.pad_sequence([tensor([1, 2, 3]), tensor([7])], batch_first=True, padding_value=-1)
TEST(Collate, PadsAsPyTorchsPadSequenceAndSaysWhatIsPadding) {
  const Batch batch = Collate(
      {{.tensor = "tokens", .how = How::kPad, .value = -1, .mask = "mask", .length = "length"}})(
      sentences());
  EXPECT_THAT(names_of(batch), ElementsAre("tokens", "mask", "length", "label"));
  EXPECT_TRUE(batch["tokens"].equal(torch::tensor({{1, 2, 3}, {7, -1, -1}})));
  EXPECT_TRUE(batch["mask"].equal(torch::tensor({{true, true, true}, {true, false, false}})));
  EXPECT_TRUE(batch["length"].equal(torch::tensor({3, 1})));
  EXPECT_TRUE(batch["label"].equal(torch::tensor({0, 1})));
  EXPECT_THAT(batch.indices, ElementsAre(4, 1));
}

TEST(Collate, RoundsThePaddedLengthUp) {
  const Batch batch =
      Collate({{.tensor = "tokens", .how = How::kPad, .multiple_of = 4}})(sentences());
  EXPECT_TRUE(batch["tokens"].equal(torch::tensor({{1, 2, 3, 0}, {7, 0, 0, 0}})));
}

TEST(Collate, KeepsRaggedListsBehindEachOther) {
  const std::vector<Sample> samples{numbered(0, {{"boxes", torch::ones({2, 4})}}),
                                    numbered(1, {{"boxes", torch::zeros({0, 4})}}),
                                    numbered(2, {{"boxes", torch::full({2, 4}, 5.0)}})};
  const Batch batch = Collate({{.tensor = "boxes", .how = How::kRagged}})(samples);
  EXPECT_THAT(names_of(batch), ElementsAre("boxes", "boxes_length"));
  EXPECT_THAT(batch["boxes"].sizes(), ElementsAre(4, 4));
  EXPECT_TRUE(batch["boxes_length"].equal(torch::tensor({2, 0, 2})));
  const auto parts = batch["boxes"].split_with_sizes({2, 0, 2});
  for (size_t i = 0; i < samples.size(); ++i) EXPECT_TRUE(parts[i].equal(samples[i]["boxes"])) << i;
  EXPECT_THAT(test::error_of([&] { rows_of(batch); }), HasSubstr("SampleDataset"));
}

TEST(Collate, StacksWhatNoRuleNamesAndNothingAtAllToAnEmptyBatch) {
  const auto tensors = std::make_shared<TensorDataset>(torch::rand({5, 2, 3}), torch::arange(5));
  const std::vector<int64_t> wanted{3, 0, 3};
  const Batch at_once = tensors->get(wanted);
  const Batch batch = tensors->collate(tensors->samples(wanted));
  for (const char* name : {"data", "target"}) EXPECT_TRUE(batch[name].equal(at_once[name])) << name;
  EXPECT_EQ(batch.indices, wanted);
  EXPECT_EQ(Collate()({}).size(), 0);
}

TEST(Collate, OfATaskTakesThePlaceOfTheDatasets) {
  class Words final : public SampleDataset {
   public:
    Words() : SampleDataset(Collate({{.tensor = "tokens", .how = How::kPad}})) {}
    int64_t size() const override { return 2; }
    DataSpec spec() const override { return {.name = "words", .kind = DataKind::kTokens}; }

   private:
    Sample sample(int64_t index, const SampleContext&) const override { return sentences()[index]; }
  };
  const auto words = std::make_shared<SubsetDataset>(std::make_shared<Words>(), 0, 2);
  const std::vector<int64_t> both{1, 0};
  EXPECT_TRUE(words->get(both)["tokens"].equal(torch::tensor({{7, 0, 0}, {1, 2, 3}})));
  const auto ragged = collated(words, Collate({{.tensor = "tokens", .how = How::kRagged}}));
  EXPECT_TRUE(ragged->get(both)["tokens"].equal(torch::tensor({7, 1, 2, 3})));
  EXPECT_EQ(ragged->fingerprint(), words->fingerprint());
  EXPECT_TRUE(ragged->spec().is_tokens());
  EXPECT_FALSE(ragged->spec().is_image());
}

TEST(Collate, RefusesSamplesThatDoNotFitTogether) {
  const auto error = [](const Collate& collate, std::vector<Sample> samples) {
    return test::error_of([&] { collate(samples); });
  };
  EXPECT_THAT(
      error(Collate(), sentences()),
      HasSubstr("\"tokens\" of a batch: all samples have one dtype and shape (got sample 4: "
                "int64 [3]; sample 1: int64 [1])"));
  const Collate pads({{.tensor = "x", .how = How::kPad}});
  EXPECT_THAT(error(pads,
                    {numbered(0, {{"x", torch::zeros({2, 3})}}),
                     numbered(1, {{"x", torch::zeros({2, 4})}})}),
              HasSubstr("behind the first dimension"));
  EXPECT_THAT(error(pads, {numbered(0, {{"x", torch::tensor(1)}})}),
              HasSubstr("sample 0: int64 []"));
  EXPECT_THAT(
      error(pads,
            {numbered(0, {{"x", torch::zeros({2})}}), numbered(1, {{"y", torch::zeros({2})}})}),
      HasSubstr("sample 0 has x; sample 1 has y"));
  EXPECT_THAT(test::error_of([] {
                Collate({{.tensor = "x"}, {.tensor = "x"}});
              }),
              HasSubstr("one rule"));
  EXPECT_THAT(test::error_of([] { Collate({{.tensor = "x", .multiple_of = 0}}); }),
              HasSubstr("at least 1 (got 0)"));
}

}  // namespace
}  // namespace muster::data
