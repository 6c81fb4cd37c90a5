#include "muster/text/words/basic_english.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/text/words/ngrams.h"

#include "tests/support/error_of.h"
#include "tests/support/golden.h"

namespace muster::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(BasicEnglish, WordsAreThoseOfTorchtextsRule) {
  const Json golden = test::read_golden("text");
  for (const Json& known : golden.at("words")) {
    const auto text = known.at("text").get<std::string>();
    EXPECT_EQ(basic_english(text), known.at("words").get<std::vector<std::string>>()) << text;
  }
}

TEST(BasicEnglish, RoomThatIsUsedAgainHasTheNewWordsAlone) {
  Words words;
  basic_english("One, two; three", words);
  EXPECT_THAT(words.words, ElementsAre("one", ",", "two", "three"));
  basic_english("\"Four\"", words);
  EXPECT_THAT(words.words, ElementsAre("four"));
  basic_english("", words);
  EXPECT_THAT(words.words, IsEmpty());
}

TEST(BasicEnglish, BytesThatAreNoUtf8AreRefusedByPlace) {
  const std::string error = test::refusal_of([] { basic_english("ab\xC3(c"); });
  EXPECT_THAT(error, HasSubstr("byte 0xc3 at 2 of 5"));
}

// The example of torchtext's documentation of ngrams_iterator.
TEST(Ngrams, AreWordsThenPairsThenLongerRuns) {
  const std::vector<std::string> words{"here", "we", "are"};
  EXPECT_THAT(ngrams(words, 2), ElementsAre("here", "we", "are", "here we", "we are"));
  EXPECT_THAT(ngrams(words, 9),
              ElementsAre("here", "we", "are", "here we", "we are", "here we are"));
  EXPECT_THAT(ngrams(std::span(words).first(0), 3), IsEmpty());
  EXPECT_THAT(test::refusal_of([&] { ngrams(words, 0); }), HasSubstr("at least 1 word (got 0)"));
}

}  // namespace
}  // namespace muster::text
