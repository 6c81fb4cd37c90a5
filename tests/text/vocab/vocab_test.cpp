#include "muster/text/vocab/vocab.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/text/vocab/vocab_file.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Counter counted() {
  Counter counter;
  counter.update(std::vector<std::string>{"b", "a", "c", "a", "<unk>", "b", "a", "d", "\u00E9"});
  return counter;
}

// torchtext.vocab.vocab(Counter): as first seen; specials are taken out and put in front or behind.
TEST(Vocab, OfACounterHasTheWordsAsFirstSeen) {
  EXPECT_THAT(vocab(counted()).get_itos(), ElementsAre("b", "a", "c", "<unk>", "d", "\u00E9"));
  EXPECT_THAT(vocab(counted(), {.min_freq = 2, .specials = {"<unk>", "<pad>"}}).get_itos(),
              ElementsAre("<unk>", "<pad>", "b", "a"));
  EXPECT_THAT(
      vocab(counted(), {.min_freq = 2, .specials = {"<unk>"}, .special_first = false}).get_itos(),
      ElementsAre("b", "a", "<unk>"));
}

// torchtext.vocab.build_vocab_from_iterator: by count, then by code point; max_tokens counts specials,
// and is cut before they are taken out.
TEST(Vocab, BuiltFromTextHasTheMostFrequentWordsFirst) {
  EXPECT_THAT(build_vocab(counted()).get_itos(),
              ElementsAre("a", "b", "<unk>", "c", "d", "\u00E9"));
  EXPECT_THAT(build_vocab(counted(), {.specials = {"<unk>"}}, 4).get_itos(),
              ElementsAre("<unk>", "a", "b"));
  EXPECT_THAT(test::refusal_of([] { build_vocab(counted(), {.specials = {"x"}}, 1); }),
              HasSubstr("more than the 1 specials (got 1)"));
}

TEST(Vocab, UnknownTokensAreTheDefaultIndexOrAnError) {
  Vocab words = vocab(counted());
  EXPECT_THAT(test::refusal_of([&] { (void)words["nobody"]; }), HasSubstr("\"nobody\""));
  words.set_default_index(-1);
  EXPECT_EQ(words["nobody"], -1);
  EXPECT_EQ(words["a"], 1);
  words.set_default_index({});
  EXPECT_FALSE(words.find("nobody").has_value());
}

TEST(Vocab, InsertedTokensMoveLaterIds) {
  Vocab words(std::vector<std::string>{"a", "b"});
  words.insert_token("<unk>", 0);
  words.append_token("z");
  EXPECT_THAT(words.lookup_indices(std::vector<std::string>{"<unk>", "a", "b", "z"}),
              ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(words.get_stoi().at("b"), 2);
  EXPECT_THAT(test::refusal_of([&] { words.insert_token("a", 0); }),
              HasSubstr("\"a\" has the id 1"));
  EXPECT_THAT(test::refusal_of([&] { words.insert_token("q", 5); }), HasSubstr("0 to 4 (got 5)"));
  EXPECT_THAT(test::refusal_of([&] { words.lookup_token(4); }), HasSubstr("0 to 3 (got 4)"));
  EXPECT_THAT(test::refusal_of([&] { words.append_token("\xFF"); }), HasSubstr("text is UTF-8"));
}

TEST(Vocab, RowsOfWordsBecomeABatchAndComeBack) {
  Vocab words = vocab(counted(), {.specials = {"<pad>", "<unk>"}});
  words.set_default_index(1);
  const std::vector<std::vector<std::string>> rows{{"a", "b", "nobody"}, {}, {"c"}};
  const TokenBatch batch = words.encode(rows, {.pad_value = 0});
  EXPECT_EQ(batch.width, 3);
  EXPECT_THAT(batch.lengths, ElementsAre(3, 0, 1));
  EXPECT_THAT(batch.ids, ElementsAre(3, 2, 1, 0, 0, 0, 4, 0, 0));
  EXPECT_THAT(words.decode(batch),
              ElementsAre(ElementsAre("a", "b", "<unk>"), ElementsAre(), ElementsAre("c")));
}

TEST(VocabFile, KeepsEveryTokenAndTheDefaultIndex) {
  const test::Folder folder;
  Vocab words(std::vector<std::string>{"", "a b", "new\nline", "back\\slash\r", "\u00E9"});
  words.set_default_index(-7);
  save_vocab(folder.path() / "words.txt", words);
  EXPECT_EQ(load_vocab(folder.path() / "words.txt"), words);
  EXPECT_EQ(read_file(folder.path() / "words.txt"),
            "muster vocabulary 1\ndefault_index -7\ntokens 5\n\na "
            "b\nnew\\nline\nback\\\\slash\\r\n\u00E9\n");
}

TEST(VocabFile, FaultsAreNamedByFileAndLine) {
  const auto error = [](const std::string& file) {
    return test::refusal_of([&] { parse_vocab(file, "words.txt"); }, ErrorKind::kEnvironment);
  };
  const std::string head = "muster vocabulary 1\ndefault_index none\n";
  EXPECT_THAT(error("the\n"), HasSubstr("words.txt:1: a vocabulary begins with"));
  EXPECT_THAT(error("muster vocabulary 1\ndefault 0\n"),
              HasSubstr("words.txt:2: this line is \"default_index"));
  EXPECT_THAT(error(head + "tokens 2\na\n"),
              HasSubstr("words.txt:5: the file goes on (got its end)"));
  EXPECT_THAT(error(head + "tokens 1\na"), HasSubstr("words.txt:4: a line ends with a newline"));
  EXPECT_THAT(error(head + "tokens 2\na\na\n"),
              HasSubstr("words.txt:5: each token is there once, and this one has the id 0"));
  EXPECT_THAT(error(head + "tokens 1\n\\t\n"),
              HasSubstr("words.txt:4: a backslash is followed by"));
  EXPECT_THAT(error(head + "tokens 1\n\xFF\n"), HasSubstr("words.txt:4: a token is UTF-8"));
  EXPECT_THAT(error(head + "tokens 0\na\n"),
              HasSubstr("words.txt:3: the file ends after 0 tokens"));
}

TEST(VocabFile, WordListsAreReadAsBertsAre) {
  EXPECT_THAT(parse_word_list("[PAD]\nthe \t\r\n##s", "vocab.txt").get_itos(),
              ElementsAre("[PAD]", "the", "##s"));
  EXPECT_THAT(
      test::refusal_of([] { parse_word_list("a\n\nb\n", "vocab.txt"); }, ErrorKind::kEnvironment),
      HasSubstr("vocab.txt:2: each line has a token"));
}

}  // namespace
}  // namespace muster::text
