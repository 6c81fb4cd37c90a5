// How often the first cause of a real message is named: suite F.
#include "tests/diagnose/log/corpus.h"

#include <iostream>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/diagnose/log/log_diagnosis.h"

namespace muster::diagnose {
namespace {

using test::CorpusEntry;
using test::read_corpus;

std::string family_of(std::string_view row) {
  for (const ErrorFamilyEntry* family : error_families()) {
    for (const ErrorRow& known : family->rows) {
      if (known.name == row) return std::string(family->name);
    }
  }
  return "none";
}

struct Score {
  int right = 0, all = 0;
  int wrong = 0;  ///< named, but not the cause
};

/// Right and all, by family ("none": no row is the cause, and nothing is to be said); prints them, and
/// each entry that is wrong.
Score score_of(const std::string& part) {
  std::map<std::string, Score> families;
  Score total;
  for (const CorpusEntry& entry : read_corpus(part)) {
    const LogDiagnosis diagnosis = classify(entry.text);
    const Finding* first = diagnosis.first_cause();
    const std::string_view said = first == nullptr ? "none" : first->row->name;
    const bool right = said == entry.row;
    for (Score* score : {&families[family_of(entry.row)], &total}) {
      ++score->all;
      score->right += right ? 1 : 0;
      score->wrong += !right && first != nullptr ? 1 : 0;
    }
    if (!right)
      std::cout << part << ": " << said << " instead of " << entry.row << ": " << entry.address
                << '\n';
  }
  for (const auto& [family, score] : families)
    std::cout << part << ": " << family << ' ' << score.right << '/' << score.all << '\n';
  std::cout << part << ": all " << total.right << '/' << total.all << ", named wrongly "
            << total.wrong << '\n';
  return total;
}

TEST(Corpus, FirstCauseIsNamedForTheHeldOutRepositories) {
  const Score score = score_of("held_out");
  ASSERT_GT(score.all, 0);
  EXPECT_GE(score.right, 0.85 * score.all);
}

TEST(Corpus, FirstCauseIsNamedForMessagesThatWereFoundLater) {
  const Score score = score_of("later");
  ASSERT_GT(score.all, 0);
  EXPECT_GE(score.right, 0.85 * score.all);
}

TEST(Corpus, FirstCauseIsNamedForTheDevelopmentPart) {
  const Score score = score_of("development");
  ASSERT_GT(score.all, 0);
  EXPECT_GE(score.right, 0.85 * score.all);
}

TEST(Corpus, FirstCauseIsNamedForMessagesThatNobodyHadSeen) {
  const Score score = score_of("unseen");
  ASSERT_GT(score.all, 0);
  EXPECT_GE(score.right, 0.85 * score.all);
}

TEST(Corpus, FirstCauseIsNamedForMessagesOfASecondBlindSet) {
  const Score score = score_of("fresh");
  ASSERT_GT(score.all, 0);
  EXPECT_GE(score.right, 0.85 * score.all);
}

TEST(Corpus, FirstCauseIsNamedForMessagesOfAThirdBlindSet) {
  const Score score = score_of("third");
  ASSERT_GT(score.all, 0);
  EXPECT_GE(score.right, 0.85 * score.all);
}

TEST(Corpus, FirstCauseIsNamedForMessagesOfAFourthBlindSet) {
  const Score score = score_of("fourth");
  ASSERT_GT(score.all, 0);
  EXPECT_GE(score.right, 0.85 * score.all);
}

TEST(Corpus, FirstCauseIsNamedForMessagesOfAFifthBlindSet) {
  const Score score = score_of("fifth");
  ASSERT_GT(score.all, 0);
  EXPECT_GE(score.right, 0.85 * score.all);
}

TEST(Corpus, FirstCauseIsNamedForMessagesOfASixthBlindSet) {
  const Score score = score_of("sixth");
  ASSERT_GT(score.all, 0);
  EXPECT_GE(score.right, 0.85 * score.all);
}

TEST(Corpus, FirstCauseIsNamedForMessagesOfASeventhBlindSet) {
  const Score score = score_of("seventh");
  ASSERT_GT(score.all, 0);
  EXPECT_GE(score.right, 0.85 * score.all);
}

TEST(Corpus, FirstCauseIsNamedForMessagesOfAnEighthBlindSet) {
  const Score score = score_of("eighth");
  ASSERT_GT(score.all, 0);
  EXPECT_GE(score.right, 0.85 * score.all);
}

TEST(Corpus, FirstCauseIsNamedForMessagesOfANinthBlindSet) {
  const Score score = score_of("ninth");
  ASSERT_GT(score.all, 0);
  EXPECT_GE(score.right, 0.85 * score.all);
}

TEST(Corpus, FirstCauseIsNamedForMessagesOfATenthBlindSet) {
  const Score score = score_of("tenth");
  ASSERT_GT(score.all, 0);
  EXPECT_GE(score.right, 0.85 * score.all);
}

TEST(Corpus, FirstCauseIsNamedForMessagesOfAnEleventhBlindSet) {
  const Score score = score_of("eleventh");
  ASSERT_GT(score.all, 0);
  EXPECT_GE(score.right, 0.85 * score.all);
}

TEST(Corpus, FirstCauseIsNamedForMessagesOfATwelfthBlindSet) {
  const Score score = score_of("twelfth");
  ASSERT_GT(score.all, 0);
  EXPECT_GE(score.right, 0.85 * score.all);
}

TEST(Corpus, FirstCauseIsNamedForMessagesOfAThirteenthBlindSet) {
  const Score score = score_of("thirteenth");
  ASSERT_GT(score.all, 0);
  EXPECT_GE(score.right, 0.85 * score.all);
}

TEST(Corpus, FirstCauseIsNamedForMessagesOfAFourteenthBlindSet) {
  const Score score = score_of("fourteenth");
  ASSERT_GT(score.all, 0);
  EXPECT_GE(score.right, 0.85 * score.all);
}

TEST(Corpus, FirstCauseIsNamedForMessagesOfAFifteenthBlindSet) {
  const Score score = score_of("fifteenth");
  ASSERT_GT(score.all, 0);
  EXPECT_GE(score.right, 0.85 * score.all);
}

TEST(Corpus, FirstCauseIsNamedForMessagesOfASixteenthBlindSet) {
  const Score score = score_of("sixteenth");
  ASSERT_GT(score.all, 0);
  EXPECT_GE(score.right, 0.85 * score.all);
}

TEST(Corpus, FirstCauseIsNamedForMessagesOfASeventeenthBlindSet) {
  const Score score = score_of("seventeenth");
  ASSERT_GT(score.all, 0);
  EXPECT_GE(score.right, 0.85 * score.all);
}

TEST(Corpus, FirstCauseIsNamedForMessagesOfAnEighteenthBlindSet) {
  const Score score = score_of("eighteenth");
  ASSERT_GT(score.all, 0);
  EXPECT_GE(score.right, 0.85 * score.all);
}

TEST(Corpus, HasAHundredMessagesOfRowsThatThereAre) {
  size_t count = 0;
  for (const char* part :
       {"development", "held_out",    "later",     "unseen",     "fresh",      "third",
        "fourth",      "fifth",       "sixth",     "seventh",    "eighth",     "ninth",
        "tenth",       "eleventh",    "twelfth",   "thirteenth", "fourteenth", "fifteenth",
        "sixteenth",   "seventeenth", "eighteenth"}) {
    for (const CorpusEntry& entry : read_corpus(part)) {
      ++count;
      EXPECT_TRUE(entry.row == "none" || find_error_row(entry.row) != nullptr)
          << entry.row << " of " << entry.address;
      EXPECT_FALSE(entry.text.empty()) << entry.address;
    }
  }
  EXPECT_GE(count, 100U);
}

TEST(Corpus, IsSplitByRepository) {
  for (const CorpusEntry& entry : read_corpus("development"))
    EXPECT_FALSE(test::is_held_out(test::repository_of(entry.address))) << entry.address;
  for (const CorpusEntry& entry : read_corpus("held_out"))
    EXPECT_TRUE(test::is_held_out(test::repository_of(entry.address))) << entry.address;
}

}  // namespace
}  // namespace muster::diagnose
