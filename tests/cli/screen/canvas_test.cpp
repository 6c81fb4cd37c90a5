// Text on cells: wide letters, control characters, what does not fit.
#include "cli/screen/canvas.h"

#include <limits>

#include <gtest/gtest.h>

#include "cli/screen/text_field.h"

namespace muster::cli {
namespace {

TEST(Canvas, CutsWhatDoesNotFitAndStaysWithinItsRow) {
  Canvas canvas(8, 2);
  EXPECT_EQ(canvas.put(0, 2, "abcdefgh"), 6);
  EXPECT_EQ(canvas.line(0), "  abcde…");
  EXPECT_EQ(canvas.put(1, 0, "abcdef", Look::kBad, 3), 3);
  EXPECT_EQ(canvas.line(1), "ab…");
  EXPECT_EQ(canvas.at(1, 0).look, Look::kBad);
  EXPECT_EQ(canvas.put(2, 0, "outside"), 0);
  EXPECT_EQ(canvas.put(0, 8, "outside"), 0);
}

TEST(Canvas, AWideLetterTakesTwoCellsAndIsNeverCutInHalf) {
  Canvas canvas(6, 1);
  EXPECT_EQ(canvas.put(0, 0, "学習"), 4);
  EXPECT_EQ(canvas.at(0, 1).letter, "");
  EXPECT_EQ(canvas.line(0), "学習");
  Canvas narrow(4, 1);
  EXPECT_EQ(narrow.put(0, 0, "a学習"), 4);
  EXPECT_EQ(narrow.line(0), "a学…");
  Canvas even(4, 1);
  EXPECT_EQ(even.put(0, 0, "学習率"), 3) << "the second would not leave room for the mark";
  EXPECT_EQ(even.line(0), "学…");
}

TEST(Canvas, CombiningMarksStayWithTheirLetter) {
  Canvas canvas(4, 1);
  EXPECT_EQ(canvas.put(0, 0, "e\xCC\x81z"), 2);
  EXPECT_EQ(canvas.at(0, 0).letter, "e\xCC\x81");
}

TEST(Canvas, ControlCharactersAndBrokenUtf8AreShownNotObeyed) {
  EXPECT_EQ(escaped("a\x1b[2J\n\x7f"), "a\\x1b[2J\\n\\x7f");
  EXPECT_EQ(escaped("\xff"
                    "b\xC2\x9B"),
            "\xEF\xBF\xBD"
            "b\xEF\xBF\xBD")
      << "C1 controls, too";
}

TEST(Sparkline, ShowsTheLastOfEachShareAndWhatIsNotFinite) {
  EXPECT_EQ(sparkline({0, 1, 2, 3, 4, 5, 6, 7}, 8), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(sparkline({0, 9, 0, 7}, 2), "█▇");
  EXPECT_EQ(sparkline({1, std::numeric_limits<double>::quiet_NaN(), 1}, 10), "▁·▁");
  EXPECT_EQ(sparkline({}, 10), "");
  EXPECT_EQ(sparkline({-1e308, 1e308}, 2), "▁█") << "a range beyond doubles";
}

TEST(TextField, IsEditedByWholeLetters) {
  TextField field("lr=é");
  field.handle_key({Key::kLeft});
  EXPECT_EQ(field.before(), "lr=");
  field.handle_key({Key::kLetter, "ü"});
  EXPECT_EQ(field.text(), "lr=üé");
  field.handle_key({Key::kBackspace});
  field.handle_key({Key::kEnd});
  field.handle_key({Key::kBackspace});
  EXPECT_EQ(field.text(), "lr=");
  field.handle_key({Key::kHome});
  field.handle_key({Key::kBackspace});
  EXPECT_EQ(field.text(), "lr=");
  EXPECT_FALSE(field.handle_key({Key::kUp}));
}

}  // namespace
}  // namespace muster::cli
