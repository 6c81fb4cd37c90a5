#include "muster/text/subword/tokenizer.h"

#include <array>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tests/support/golden.h"

namespace muster::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> flat(const std::vector<TextSpan>& spans) {
  std::vector<int64_t> out;
  for (const TextSpan& span : spans) {
    out.push_back(span.begin);
    out.push_back(span.end);
  }
  return out;
}

std::vector<int64_t> flat(const Json& spans) {
  std::vector<int64_t> out;
  for (const Json& span : spans) {
    out.push_back(span[0].get<int64_t>());
    out.push_back(span[1].get<int64_t>());
  }
  return out;
}

TEST(Tokenizer, EncodesAndDecodesAsThePeerDoes) {
  const Json golden = test::read_golden("text");
  for (const Json& known : golden.at("tokenizers")) {
    const Tokenizer tokenizer = Tokenizer::parse(known.at("file").dump(), "golden");
    for (const Json& want : known.at("encodings")) {
      const auto text = want.at("text").get<std::string>();
      const Encoding got = tokenizer.encode(text, {.offsets = OffsetUnit::kCodePoints});
      SCOPED_TRACE(known.at("name").get<std::string>() + ": " + text);
      EXPECT_EQ(got.ids, want.at("ids").get<std::vector<uint32_t>>());
      EXPECT_EQ(flat(got.offsets), flat(want.at("offsets")));
      EXPECT_EQ(got.words, want.at("words").get<std::vector<int32_t>>());
      EXPECT_EQ(got.attention_mask, want.at("attention").get<std::vector<uint8_t>>());
      ASSERT_EQ(got.overflowing.size(), want.at("parts").size());
      for (size_t i = 0; i < got.overflowing.size(); ++i)
        EXPECT_EQ(got.overflowing[i].ids, want.at("parts")[i].get<std::vector<uint32_t>>());
      EXPECT_EQ(tokenizer.decode(got.ids), want.at("decoded").get<std::string>());
    }
  }
}

/// The first golden tokenizer, a byte-level BPE with NFC.
Json bpe_file() { return test::read_golden("text").at("tokenizers")[0].at("file"); }

TEST(Tokenizer, OffsetsInBytesCutTheTextItself) {
  const Tokenizer tokenizer = Tokenizer::parse(bpe_file().dump(), "golden");
  const std::string text = "the na\u00EFve \u65E5 cafe\u0301";
  const Encoding encoding = tokenizer.encode(text);
  std::string joined;
  uint32_t end = 0;
  for (const TextSpan& span : encoding.offsets) {
    ASSERT_LE(span.end, text.size());
    // Pieces of one character have the whole of it.
    const uint32_t begin = std::max(span.begin, end);
    if (span.end > begin) joined += text.substr(begin, span.end - begin);
    end = std::max(end, span.end);
  }
  // Without blanks; a letter that took its accent in has the letter's place, as the peer has it.
  EXPECT_EQ(joined, "thena\u00EFve\u65E5cafe");
}

TEST(Tokenizer, ThreadsShareOne) {
  const Tokenizer tokenizer = Tokenizer::parse(bpe_file().dump(), "golden");
  const std::string text = "the quick brown fox don't care; 3.14";
  const std::vector<uint32_t> want = tokenizer.encode(text).ids;
  std::vector<std::thread> threads;
  std::array<bool, 4> same{};
  for (size_t i = 0; i < same.size(); ++i) {
    threads.emplace_back([&, i] {
      bool all = true;
      for (int turn = 0; turn < 200; ++turn) all = all && tokenizer.encode(text).ids == want;
      same[i] = all;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(same, ElementsAre(true, true, true, true));
}

TEST(Tokenizer, PaddingAndTruncationCanBeSet) {
  Tokenizer tokenizer = Tokenizer::parse(bpe_file().dump(), "golden");
  tokenizer.set_truncation(Truncation{.max_length = 2});
  tokenizer.set_padding(Padding{.fixed_length = 4, .pad_id = 9, .side = Side::kLeft});
  const Encoding encoding = tokenizer.encode("the dog the fox");
  EXPECT_THAT(encoding.attention_mask, ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(encoding.ids[0], 9U);
  EXPECT_THAT(
      test::refusal_of([&] { tokenizer.set_truncation(Truncation{.max_length = 4, .stride = 4}); }),
      HasSubstr("the stride, 4, is less"));
}

/// The error of the golden file with one value replaced; `path` is a JSON pointer.
std::string error_with(const char* path, const Json& value) {
  Json file = bpe_file();
  file[Json::json_pointer(path)] = value;
  return test::refusal_of([&] { Tokenizer::parse(file.dump(), "t.json"); },
                          ErrorKind::kEnvironment);
}

TEST(TokenizerFile, WhatIsNotUnderstoodIsRefusedByItsPlace) {
  EXPECT_THAT(
      error_with("/model/type", "Unigram"),
      HasSubstr("t.json.model.type: Muster knows the models BPE and WordPiece (got Unigram)"));
  EXPECT_THAT(error_with("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", ""}}),
              HasSubstr("t.json.normalizer.type"));
  EXPECT_THAT(error_with("/pre_tokenizer/novel", 1),
              HasSubstr("t.json.pre_tokenizer.novel: Muster knows no such key here (got 1)"));
  EXPECT_THAT(error_with("/model/dropout", 0.1), HasSubstr("t.json.model.dropout"));
  EXPECT_THAT(error_with("/model/vocab/the", 1), HasSubstr("an id has one token"));
  EXPECT_THAT(error_with("/model/merges/0", "x"),
              HasSubstr("t.json.model.merges[0]: a merge is two tokens"));
  EXPECT_THAT(error_with("/model/merges/0", {"t", "\u2603"}),
              HasSubstr("the tokens of a merge are in the vocabulary (got \u2603)"));
  EXPECT_THAT(error_with("/added_tokens/0/id", 7000),
              HasSubstr("t.json.added_tokens[0].id: the id of \"<|end|>\" is 0"));
  EXPECT_THAT(error_with("/decoder/type", "CTC"), HasSubstr("t.json.decoder.type"));
  EXPECT_THAT(error_with("/version", "2.0"), HasSubstr("t.json.version: it is 1.0 (got 2.0)"));
  EXPECT_THAT(error_with("/pre_tokenizer",
                         {{"type", "Split"},
                          {"pattern", {{"Regex", "(a"}}},
                          {"behavior", "Isolated"},
                          {"invert", false}}),
              HasSubstr("t.json.pre_tokenizer.pattern: PCRE2 reads the pattern"));
}

TEST(TokenizerFile, ATextThatWouldGrowWithoutEndIsRefused) {
  Json file = bpe_file();
  const Json twice = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::vector<Json>(60, twice)}};
  const Tokenizer tokenizer = Tokenizer::parse(file.dump(), "t.json");
  EXPECT_THAT(test::refusal_of([&] { tokenizer.encode("a"); }, ErrorKind::kEnvironment),
              HasSubstr("grows to at most 65600 bytes"));
}

}  // namespace
}  // namespace muster::text
