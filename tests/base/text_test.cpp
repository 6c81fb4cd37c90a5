#include "muster/base/text.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(Split, KeepsEmptyParts) {
  EXPECT_THAT(split("a,,b,", ','), ElementsAre("a", "", "b", ""));
  EXPECT_THAT(split("", ','), ElementsAre(""));
}

TEST(Join, IsTheInverseOfSplit) {
  for (const char* text : {"a,,b,", "", "one", ","}) EXPECT_EQ(join(split(text, ','), ","), text);
}

TEST(Trim, TakesBlanksFromBothEndsOnly) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" \n "), "");
}

TEST(ToInt, TakesTheWholeTextOrNothing) {
  EXPECT_EQ(to_int("-42"), -42);
  EXPECT_EQ(to_int("9223372036854775807"), std::numeric_limits<int64_t>::max());
  for (const char* text : {"", " 1", "1 ", "1x", "0x10", "1.0", "9223372036854775808", "+1"}) {
    EXPECT_EQ(to_int(text), std::nullopt) << text;
  }
}

TEST(ToDouble, TakesTheWholeTextOrNothing) {
  EXPECT_EQ(to_double("1e-3"), 0.001);
  for (const char* text : {"", "1,5", "1e", " 1", "1e999"})
    EXPECT_EQ(to_double(text), std::nullopt) << text;
}

TEST(Shortest, ReadsBackAsTheSameNumber) {
  for (const double value : {0.1, 1.0 / 3, 1e-300, -0.0, 123456789.0, 5e-324}) {
    EXPECT_EQ(to_double(shortest(value)), value);
  }
  EXPECT_EQ(shortest(0.1), "0.1");
}

TEST(Fixed, RoundsToTheDigits) {
  EXPECT_EQ(fixed(0.91234, 4), "0.9123");
  EXPECT_EQ(fixed(2.0, 0), "2");
}

// The sign of a NaN depends on the processor and says nothing.
TEST(NumberTexts, NameNanWithoutASign) {
  for (const double value : {std::nan(""), -std::nan("")}) {
    EXPECT_EQ(shortest(value), "nan");
    EXPECT_EQ(fixed(value, 4), "nan");
  }
  EXPECT_EQ(fixed(-INFINITY, 4), "-inf");
}

TEST(HumanDuration, ChoosesTheUnit) {
  EXPECT_EQ(human_duration(0.0451), "45ms");
  EXPECT_EQ(human_duration(12.34), "12.3s");
  EXPECT_EQ(human_duration(187), "3m07s");
  EXPECT_EQ(human_duration(3845), "1h04m");
  EXPECT_EQ(human_duration(3.6e21), "1000000000000000000h");
  EXPECT_EQ(human_duration(-1), "?");
  EXPECT_EQ(human_duration(std::nan("")), "?");
}

TEST(Text, PreciseDurationsHaveThreeDigits) {
  EXPECT_EQ(precise_duration(0.00931), "9.31 ms");
  EXPECT_EQ(precise_duration(0.0003), "0.300 ms");
  EXPECT_EQ(precise_duration(0.009996), "10.0 ms");
  EXPECT_EQ(precise_duration(0.0123), "12.3 ms");
  EXPECT_EQ(precise_duration(0.123), "123 ms");
  EXPECT_EQ(precise_duration(0.9996), "1.00 s");
  EXPECT_EQ(precise_duration(12.34), "12.3 s");
  EXPECT_EQ(precise_duration(187), "3m07s");
}

TEST(Text, AFirstLineEndsBeforeItsLineEnd) {
  EXPECT_EQ(first_line("error: x\nhint: y\n"), "error: x");
  EXPECT_EQ(first_line("error: x"), "error: x");
  EXPECT_EQ(first_line("\nhint: y"), "");
  EXPECT_EQ(first_line(""), "");
}

TEST(HumanDuration, NeverSaysSixtySeconds) {
  EXPECT_EQ(human_duration(59.97), "1m00s");
  EXPECT_EQ(human_duration(0.9997), "1.0s");
  EXPECT_EQ(human_duration(59.94), "59.9s");
}

TEST(HumanBytes, ChoosesTheUnit) {
  EXPECT_EQ(human_bytes(17), "17 B");
  EXPECT_EQ(human_bytes(1288490189), "1.2 GiB");
  EXPECT_EQ(human_bytes(553ULL << 20), "553 MiB");
  EXPECT_EQ(human_bytes((1 << 20) - 1), "1.0 MiB");
}

TEST(EditDistance, CountsASwapOfNeighboursOnce) {
  EXPECT_EQ(edit_distance("train", "train"), 0);
  EXPECT_EQ(edit_distance("trian", "train"), 1);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("ca", "abc"), 3);  // the restricted form: no edit inside a swap
}

TEST(Suggestion, NamesANearWordElseAll) {
  const std::vector<std::string> known{"fashion-mnist", "mnist"};
  EXPECT_EQ(suggestion("mnits", known), "did you mean \"mnist\"?");
  EXPECT_EQ(suggestion("fashion", known), "did you mean \"fashion-mnist\"?");
  EXPECT_EQ(suggestion("wid", std::vector<std::string>{"id", "width"}), "did you mean \"width\"?");
  EXPECT_EQ(suggestion("imagenet", known), "known: fashion-mnist, mnist");
  EXPECT_EQ(suggestion("imagenet", std::vector<std::string>{}), "");
}

TEST(DisplayWidth, CountsLettersNotBytesNorEscapes) {
  EXPECT_EQ(display_width("━━"), 2U);
  EXPECT_EQ(display_width("\x1b[31;1mred\x1b[0m"), 3U);
}

TEST(Wrap, KeepsEveryLineWithinTheWidth) {
  const std::string text = wrap("one two three four five six seven", 12, "  ");
  for (const std::string& line : split(text, '\n')) {
    EXPECT_LE(display_width(line), 12U);
    EXPECT_TRUE(line.starts_with("  "));
  }
  EXPECT_EQ(wrap("a line\nanother", 80), "a line\nanother");
  EXPECT_EQ(wrap("longerthanthewidth x", 5), "longerthanthewidth\nx");
}

}  // namespace
}  // namespace muster
