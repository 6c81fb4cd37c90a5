// Sequences of tokens as padded batches.
#include "muster/data/sets/token_rows.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/loader/loader.h"
#include "muster/data/samplers/random.h"
#include "muster/data/sets/subset_dataset.h"

#include "tests/support/error_of.h"

namespace muster::data {
namespace {

using ::testing::HasSubstr;

DataSpec token_spec() {
  return {.name = "words",
          .sample_shape = {4},
          .classes = 2,
          .dtype = at::kLong,
          .kind = DataKind::kTokens,
          .vocabulary = 9,
          .padding = 0};
}

TokenSequences three() {
  return {.ids = {1, 2, 3, 4, 5, 6}, .ends = {1, 4, 6}, .targets = {0, 1, 1}};
}

TEST(TokenRows, ABatchIsAsWideAsItsLongestSequence) {
  const TokenRows rows(three(), token_spec(), "learned", {"a remark"});
  const Batch batch = rows.get(std::array<int64_t, 3>{2, 0, 1});
  EXPECT_TRUE(batch["data"].equal(torch::tensor({{5, 6, 0}, {1, 0, 0}, {2, 3, 4}}, torch::kLong)));
  EXPECT_TRUE(batch["target"].equal(torch::tensor({1, 0, 1}, torch::kLong)));
  EXPECT_EQ(rows.get(std::array<int64_t, 1>{0})["data"].size(1), 1);
  EXPECT_EQ(rows.get({})["data"].size(0), 0);
  EXPECT_EQ(rows.learned(), "learned");
  EXPECT_EQ(SubsetDataset(std::make_shared<TokenRows>(three(), token_spec(), "x"), 0, 1).learned(),
            "x");
}

TEST(TokenRows, SamplesMayHaveNoClasses) {
  TokenSequences sequences = three();
  sequences.targets.clear();
  const TokenRows rows(sequences, token_spec());
  EXPECT_EQ(rows.get(std::array<int64_t, 1>{0}).find("target"), nullptr);
  EXPECT_FALSE(rows.targets().defined());
}

TEST(TokenRows, AnyNumberOfWorkersGivesTheSameBatches) {
  TokenSequences sequences;
  for (int64_t row = 0; row < 40; ++row) {
    for (int64_t i = 0; i <= row % 7; ++i) sequences.ids.push_back(1 + (row + i) % 8);
    sequences.ends.push_back(static_cast<int64_t>(sequences.ids.size()));
    sequences.targets.push_back(row % 2);
  }
  const auto rows = std::make_shared<TokenRows>(sequences, token_spec());
  const auto batches = [&](int64_t workers) {
    Loader loader(rows,
                  {.batch_size = 6, .workers = workers, .seed = 5},
                  std::make_unique<RandomSampler>(rows->size(), RandomSamplerOptions{.seed = 3}));
    std::vector<torch::Tensor> out;
    for (const Batch& batch : loader.epoch(1)) out.push_back(batch["data"].clone());
    return out;
  };
  const auto alone = batches(0);
  ASSERT_EQ(alone.size(), 7U);
  for (const int64_t workers : {1, 2, 3}) {
    const auto several = batches(workers);
    for (size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(several[i].equal(alone[i]));
  }
}

TEST(TokenRows, EveryChangeIsInTheFingerprint) {
  const uint32_t before = TokenRows(three(), token_spec()).fingerprint();
  const auto changed = [&](auto change) {
    TokenSequences sequences = three();
    change(sequences);
    return TokenRows(sequences, token_spec()).fingerprint();
  };
  EXPECT_EQ(changed([](TokenSequences&) {}), before);
  EXPECT_NE(changed([](TokenSequences& s) { s.ids[4] = 8; }), before);
  EXPECT_NE(changed([](TokenSequences& s) { s.ends[0] = 2; }), before);
  EXPECT_NE(changed([](TokenSequences& s) { s.targets[2] = 0; }), before);
}

TEST(TokenRows, RefusesWhatIsNoSequence) {
  const auto refusal = [&](auto change) {
    TokenSequences sequences = three();
    change(sequences);
    return test::refusal_of([&] { TokenRows(sequences, token_spec()); });
  };
  EXPECT_THAT(refusal([](TokenSequences& s) { s.ends[1] = 1; }), HasSubstr("1 after 1"));
  EXPECT_THAT(refusal([](TokenSequences& s) { s.ends[2] = 5; }), HasSubstr("5 of 6"));
  EXPECT_THAT(refusal([](TokenSequences& s) { s.ids[2] = 9; }), HasSubstr("9 of 9"));
  EXPECT_THAT(refusal([](TokenSequences& s) { s.targets[2] = 2; }), HasSubstr("2 of 2"));
  EXPECT_THAT(refusal([](TokenSequences& s) { s.targets.pop_back(); }), HasSubstr("2 for 3"));
}

}  // namespace
}  // namespace muster::data
