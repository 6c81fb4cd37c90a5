#include "muster/program/screen/screen_writer.h"

#include <algorithm>
#include <future>
#include <memory>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"

namespace muster::program {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A terminal that folds lines at its width, also those that are there when the width changes.
class Terminal {
 public:
  explicit Terminal(size_t columns) : columns_(columns) {}
  void resize(size_t columns) { columns_ = columns; }

  void write(std::string_view bytes) {
    while (!bytes.empty()) bytes.remove_prefix(consume(bytes));
  }

  std::vector<std::string> lines() const {
    auto out = lines_;
    if (out.back().empty()) out.pop_back();
    return out;
  }
  size_t cursor_line() const { return at_; }

 private:
  size_t rows_of(size_t line) const {
    return std::max<size_t>(1, (lines_[line].size() + columns_ - 1) / columns_);
  }

  size_t consume(std::string_view bytes) {
    if (bytes.starts_with("\x1b[")) {
      const size_t end = bytes.find_first_of("AKJ");
      const std::string number(bytes.substr(2, end - 2));
      control(bytes[end], number.empty() ? 1 : std::stoul(number));
      return end + 1;
    }
    if (bytes[0] == '\n') {
      if (++at_ == lines_.size()) lines_.emplace_back();
      column_ = 0;
    } else if (bytes[0] == '\r') {
      column_ = 0;
    } else {
      lines_[at_].resize(std::max(lines_[at_].size(), column_ + 1), ' ');
      lines_[at_][column_++] = bytes[0];
    }
    return 1;
  }

  void control(char what, size_t n) {
    if (what == 'K') lines_[at_].resize(column_);
    if (what == 'J') lines_[at_].resize(column_), lines_.resize(at_ + 1);
    if (what != 'A') return;
    while (n > 0 && at_ > 0) {
      --at_;
      EXPECT_GE(n, rows_of(at_)) << "the cursor would stand in the middle of a folded line";
      n -= std::min(n, rows_of(at_));
    }
  }

  size_t columns_;
  std::vector<std::string> lines_ = {""};
  size_t at_ = 0, column_ = 0;
};

TEST(Redraw, PutsOneTextInThePlaceOfAnother) {
  Terminal terminal(20);
  terminal.write("$ muster tune\n");
  terminal.write(redraw_bytes("", "one\ntwo\nthree\n", {20, 24}));
  EXPECT_THAT(terminal.lines(), ElementsAre("$ muster tune", "one", "two", "three"));
  terminal.write(redraw_bytes("one\ntwo\nthree\n", "1\n2\n", {20, 24}));
  EXPECT_THAT(terminal.lines(), ElementsAre("$ muster tune", "1", "2"));
  terminal.write(redraw_bytes("1\n2\n", "uno\ndue\ntre\n", {20, 24}));
  EXPECT_THAT(terminal.lines(), ElementsAre("$ muster tune", "uno", "due", "tre"));
  EXPECT_EQ(terminal.cursor_line(), 4u);
}

TEST(Redraw, FindsItsPlaceAfterTheWindowGotNarrower) {
  Terminal terminal(40);
  terminal.write("$ muster tune\n");
  const std::string wide = std::string(40, 'a') + '\n' + std::string(15, 'b') + "\n\n";
  terminal.write(redraw_bytes("", wide, {40, 24}));
  terminal.resize(16);
  terminal.write(redraw_bytes(wide, "narrow\n", {16, 24}));
  EXPECT_THAT(terminal.lines(), ElementsAre("$ muster tune", "narrow"));
}

/// What a ScreenWriter wrote, drawing by drawing.
struct WriterScreen {
  std::mutex mutex;
  std::vector<std::string> writes;

  ScreenWriter::Options options(bool terminal, double gap_s = 0) {
    return {.write =
                [this](std::string_view text) {
                  const std::lock_guard lock(mutex);
                  writes.emplace_back(text);
                },
            .terminal = terminal,
            .size =
                [] {
                  return ScreenWriter::Size{40, 6};
                },
            .least_gap_s = gap_s};
  }
  std::vector<std::string> shown() {
    Terminal terminal(40);
    for (const auto& text : writes) terminal.write(text);
    return terminal.lines();
  }
};

TEST(ScreenWriter, KeepsTheDrawingBelowTheLines) {
  WriterScreen screen;
  ScreenWriter writer(screen.options(true));
  writer.draw("table 1\n");
  writer.line("trial 3 failed");
  writer.draw("table 2\nrow\n");
  writer.line("trial 4 failed");
  ASSERT_TRUE(writer.close());
  EXPECT_THAT(screen.shown(), ElementsAre("trial 3 failed", "trial 4 failed", "table 2", "row"));
}

TEST(ScreenWriter, DrawsOnlyWhatTheWindowHasRowsForUntilTheEnd) {
  WriterScreen screen;
  {
    ScreenWriter writer(screen.options(true));
    writer.draw("1\n2\n3\n4\n5\n6\n7\n");
    ASSERT_TRUE(writer.close());
  }
  EXPECT_THAT(screen.shown(), ElementsAre("1", "2", "3", "4", "5", "6", "7"));
}

TEST(ScreenWriter, DrawsAtMostAsOftenAsItMay) {
  WriterScreen screen;
  ScreenWriter writer(screen.options(true, 3600));
  for (int i = 0; i < 1000; ++i) {
    writer.draw(std::to_string(i) + "\n");
    writer.line("line");
  }
  ASSERT_TRUE(writer.close());
  EXPECT_LE(screen.writes.size(), 2u);
  EXPECT_EQ(screen.shown().size(), 1001u);
  EXPECT_EQ(screen.shown().back(), "999");
}

TEST(ScreenWriter, WritesOnlyLinesIntoALog) {
  WriterScreen screen;
  ScreenWriter writer(screen.options(false));
  writer.draw("table\n");
  writer.line("one");
  writer.line("two");
  ASSERT_TRUE(writer.close());
  std::string all;
  for (const auto& text : screen.writes) all += text;
  EXPECT_EQ(all, "one\ntwo\n");
}

/// Takes the first drawing and holds the writer's thread up until `read` is set. The thread may
/// outlive the test, so it owns what it uses.
struct StuckReader {
  std::promise<void> read;
  std::shared_ptr<std::promise<void>> has_begun = std::make_shared<std::promise<void>>();
  std::shared_future<void> begun = has_begun->get_future().share();
  std::shared_ptr<std::string> all = std::make_shared<std::string>();

  ScreenWriter::Options options(size_t most_pending_bytes) {
    return {.write =
                [begun = has_begun, all = all, may_end = read.get_future().share(), first = true](
                    std::string_view text) mutable {
                  *all += text;
                  if (!std::exchange(first, false)) return;
                  begun->set_value();
                  may_end.wait();
                },
            .most_pending_bytes = most_pending_bytes};
  }
};

TEST(ScreenWriter, HoldsNobodyUpWhenTheReaderIsStuck) {
  StuckReader reader;
  ScreenWriter writer(reader.options(1000));
  writer.line("first");
  reader.begun.wait();
  for (int i = 0; i < 100000; ++i) writer.line("a line that nobody reads");
  EXPECT_FALSE(writer.close(0.01));
  reader.read.set_value();
}

TEST(ScreenWriter, SaysHowManyLinesItLeftOut) {
  StuckReader reader;
  ScreenWriter writer(reader.options(99));
  writer.line("first");
  reader.begun.wait();
  for (int i = 0; i < 1000; ++i) writer.line("123456789");
  reader.read.set_value();
  ASSERT_TRUE(writer.close());
  EXPECT_THAT(*reader.all, HasSubstr("\nmuster: 990 lines are left out"));
}

}  // namespace
}  // namespace muster::program
