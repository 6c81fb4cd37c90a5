#include "muster/launch/io/line_splitter.h"

#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/launch/job/tail.h"

namespace muster::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Lines {
  LineSplitter splitter;
  std::vector<std::string> seen;
  LineSplitter::Emit emit = [this](std::string_view line) { seen.emplace_back(line); };

  void feed(std::string_view bytes, int64_t now_ms = 0) { splitter.feed(bytes, now_ms, emit); }
  void flush() { splitter.flush(emit); }
};

TEST(LineSplitter, HandsOutWholeLinesOnly) {
  Lines lines;
  lines.feed("one\ntw");
  EXPECT_THAT(lines.seen, ElementsAre("one"));
  lines.feed("o\n\n");
  EXPECT_THAT(lines.seen, ElementsAre("one", "two", ""));
}

TEST(LineSplitter, FlushesALastLineWithoutEndOnce) {
  Lines lines;
  lines.feed("half");
  lines.flush();
  lines.flush();
  EXPECT_THAT(lines.seen, ElementsAre("half"));
}

TEST(LineSplitter, DropsTheReturnOfAWindowsLineEndEvenBetweenReads) {
  Lines lines;
  lines.feed("one\r");
  EXPECT_THAT(lines.seen, IsEmpty());
  lines.feed("\ntwo\r\n");
  EXPECT_THAT(lines.seen, ElementsAre("one", "two"));
}

TEST(LineSplitter, ShowsAProgressBarOfAnotherProgramOnceASecond) {
  Lines lines;
  for (int64_t ms = 0; ms <= 2500; ms += 100) lines.feed("\rat " + std::to_string(ms), ms);
  lines.feed("\rdone\n", 2600);
  EXPECT_THAT(lines.seen, ElementsAre("at 0", "at 1000", "at 2000", "done"));
}

TEST(LineSplitter, CutsAnEndlessLineBetweenLetters) {
  Lines lines;
  std::string text;
  while (text.size() < 3 * LineSplitter::kMaxLineBytes) text += "a€";
  lines.feed(text);
  lines.flush();
  std::string joined;
  for (const std::string& line : lines.seen) {
    EXPECT_LE(line.size(), LineSplitter::kMaxLineBytes);
    EXPECT_NE(static_cast<unsigned char>(line[0]) & 0xC0, 0x80);
    joined += line;
  }
  EXPECT_EQ(joined, text);
}

TEST(LineSplitter, GivesTheSameLinesHoweverTheBytesArrive) {
  std::mt19937 random(1);
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "ab\n\r"[random() % 4];
  Lines whole;
  whole.feed(text);
  whole.flush();
  for (int round = 0; round < 50; ++round) {
    Lines parts;
    for (size_t at = 0; at < text.size();) {
      const size_t size = 1 + random() % 20;
      parts.feed(std::string_view(text).substr(at, size));
      at += size;
    }
    parts.flush();
    ASSERT_EQ(parts.seen, whole.seen);
  }
}

TEST(Tail, KeepsTheNewestLinesAndCutsLongOnes) {
  Tail tail;
  for (int i = 0; i < 100; ++i) tail.add(std::to_string(i));
  ASSERT_EQ(tail.lines().size(), Tail::kLines);
  EXPECT_EQ(tail.lines().back(), "99");
  tail.add(std::string(5000, 'x'));
  EXPECT_LT(tail.lines().back().size(), Tail::kLineBytes + 10);
}

}  // namespace
}  // namespace muster::launch
