// What is named by its words alone, and what is not.
#include "muster/diagnose/log/likeness.h"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/diagnose/log/log_diagnosis.h"
#include "muster/diagnose/log/message_words.h"

#include "tests/diagnose/log/findings.h"

namespace muster::diagnose {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::set<std::string> words_of(std::string_view line) {
  std::set<std::string> words;
  add_message_words(line, words);
  return words;
}

TEST(MessageWords, AreSmallLettersWithTheirNeighbours) {
  EXPECT_THAT(words_of("The OutOfMemory, 12 GiB"),
              UnorderedElementsAre("out", "memory", "gi", "out_memory", "memory_gi"));
  EXPECT_THAT(words_of("at /usr/lib/libxy.so: shapes"),
              UnorderedElementsAre("libxy", "so", "shape", "libxy_so", "so_shape"));
  EXPECT_THAT(words_of("code 137, pass 4"),
              UnorderedElementsAre("code", "137", "pass", "code_137", "137_pass"));
  EXPECT_TRUE(words_of(" \t=== 1 2 x /\n").empty());
}

// The message is one of the corpus: a pull request's title has no word of an error.
TEST(Likeness, NamesWhatNoPatternFits) {
  const LogDiagnosis diagnosis = classify("found two devices, cpu and cuda:0!\n");
  ASSERT_NE(diagnosis.first_cause(), nullptr);
  EXPECT_EQ(diagnosis.first_cause()->row->name, "device-mismatch");
  EXPECT_EQ(diagnosis.first_cause()->confidence, Confidence::kLow);
  EXPECT_TRUE(diagnosis.first_cause()->by_likeness);
  EXPECT_THAT(diagnosis.first_cause()->because, HasSubstr("no line is known"));
  EXPECT_EQ(diagnosis.first_cause()->evidence.at(0).line, 1);
}

TEST(Likeness, IsNotAskedWhereALineIsKnown) {
  const LogDiagnosis diagnosis = classify("found two devices, cpu and cuda:0!\nKilled\n");
  EXPECT_EQ(first_of(diagnosis), "killed");
}

TEST(Likeness, SaysNothingOfFewWordsAndOfWhatIsDenied) {
  for (const char* text : {"two devices\n",
                           "loss is not NaN, continuing\n",
                           "UserWarning: found two devices, cpu and cuda:0!\n",
                           "step 1 loss=nan\nstep 2 loss=2.3\n"})
    EXPECT_EQ(first_of(classify(text)), "none") << text;
}

TEST(Likeness, KnowsEachRowThatItNames) {
  for (const ErrorFamilyEntry* family : error_families()) {
    for (const ErrorRow& row : family->rows) {
      const Likeness of_title = likeliest_row(words_of(row.title));
      EXPECT_TRUE(of_title.row == "none" || find_error_row(of_title.row) != nullptr)
          << of_title.row;
    }
  }
}

}  // namespace
}  // namespace muster::diagnose
