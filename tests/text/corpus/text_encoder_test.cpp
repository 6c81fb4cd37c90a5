// Ids of texts by what was learned, and what a survey counts.
#include "muster/text/corpus/text_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/text/corpus/text_survey.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/golden.h"

namespace muster::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::vector<int64_t> ids_of(const TextEncoder& encoder, std::string_view text) {
  std::vector<int64_t> ids;
  encoder.append_ids(text, ids);
  return ids;
}

TextEncoder learned(std::vector<std::string_view> texts, const LearnOptions& options) {
  return learn_encoder(texts, options);
}

TEST(TextEncoder, LearnsTheMostFrequentWordsFirst) {
  const TextEncoder encoder = learned({"b b a c", "A d b"}, {});
  EXPECT_THAT(encoder.words()->get_itos(), ElementsAre("<pad>", "<unk>", "b", "a"))
      << "c and d are seen once";
  EXPECT_THAT(ids_of(encoder, "a c B"), ElementsAre(3, 1, 2));
  EXPECT_EQ(encoder.vocabulary(), 4);
  EXPECT_EQ(encoder.padding(), 0);
  EXPECT_EQ(learned({"b b a c"}, {.min_freq = 1, .max_tokens = 3}).vocabulary(), 3);
}

TEST(TextEncoder, CutsAtTheEndAndSaysSo) {
  const TextEncoder encoder = learned({"a a b b"}, {.max_length = 2});
  std::vector<int64_t> ids;
  EXPECT_TRUE(encoder.append_ids("a b a", ids));
  EXPECT_FALSE(encoder.append_ids("b a", ids));
  EXPECT_THAT(ids, ElementsAre(2, 3, 3, 2));
}

TEST(TextEncoder, ATextWithoutAWordIsPaddingAndTheWordPadIsNot) {
  const TextEncoder encoder = learned({"a a <pad> <pad>"}, {});
  EXPECT_THAT(ids_of(encoder, " \"\" "), ElementsAre(0));
  EXPECT_THAT(ids_of(encoder, "a <pad>"), ElementsAre(2, 1));
}

TEST(TextEncoder, IsTheSameAfterItsJson) {
  const TextEncoder encoder = learned({"a a b b \xC3\xBC \xC3\xBC"}, {.max_length = 7});
  const TextEncoder again = TextEncoder::from_json(parse_json(json_text(encoder.to_json()), "x"));
  EXPECT_EQ(*again.words(), *encoder.words());
  EXPECT_EQ(again.max_length(), 7);
  EXPECT_THAT(test::error_of([] { TextEncoder::from_json(Json::object()); }),
              HasSubstr("the run's vocabulary"));
}

TEST(TextEncoder, ReadsATokenizerOfHuggingFace) {
  const test::Folder folder;
  const Json golden = test::read_golden("text");  // outlives the loop
  for (const Json& one : golden.at("tokenizers")) {
    const bool has_padding = !one.at("file").at("padding").is_null();
    const std::string path = folder.path() / "tokenizer.json";
    write_file_atomic(path, json_text(one.at("file")));
    const TextEncoder encoder = learn_encoder({}, {.tokenizer = path, .max_length = 6});
    const Tokenizer tokenizer = Tokenizer::load(path);
    const auto tokens = static_cast<int64_t>(tokenizer.vocab_size());
    EXPECT_EQ(encoder.padding(), has_padding ? 0 : tokens) << "one more where it has none";
    EXPECT_EQ(encoder.vocabulary(), has_padding ? tokens : tokens + 1);
    EXPECT_EQ(ids_of(encoder, "the quick brown fox jumps over the lazy dog").size(), 6U);
    const TextEncoder again = TextEncoder::from_json(encoder.to_json());
    EXPECT_EQ(ids_of(again, "the quick"), ids_of(encoder, "the quick"));
    EXPECT_EQ(again.words(), nullptr);
  }
}

TEST(TextEncoder, RefusesWhatIsNoTokenizer) {
  EXPECT_THAT(test::refusal_of([] { learn_encoder({}, {.tokenizer = "spacy"}); }),
              HasSubstr("basic_english, or the path of a tokenizer.json"));
}

TEST(TextSurvey, CountsWhatATrainingWouldSee) {
  LabelledTexts texts;
  texts.texts = {"a a a b", "", "b c"};
  texts.targets = {"x", "y", "x"};
  const TextSurvey survey = survey_texts(texts, {.max_length = 3}, 2);
  EXPECT_THAT(survey.classes, ElementsAre(Pair("x", 2), Pair("y", 1)));
  EXPECT_EQ(survey.imbalance(), 2);
  EXPECT_EQ(survey.empty, 1);
  EXPECT_EQ(survey.longer, 1);
  EXPECT_EQ(survey.least, 0);
  EXPECT_EQ(survey.median, 2);
  EXPECT_EQ(survey.greatest, 4);
  EXPECT_EQ(survey.tokens, 6);
  EXPECT_EQ(survey.distinct, 3);
  EXPECT_EQ(survey.vocabulary, 4);
  EXPECT_EQ(survey.unknown, 1);
  EXPECT_THAT(survey.frequent, ElementsAre(Pair("a", 3), Pair("b", 2)));
}

}  // namespace
}  // namespace muster::text
