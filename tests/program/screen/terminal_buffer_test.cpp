// What comes from trials and names of studies does nothing to a terminal.
#include "muster/program/screen/terminal_buffer.h"

#include <ostream>
#include <sstream>

#include <gtest/gtest.h>

namespace muster::program {
namespace {

std::string shown(const std::vector<std::string>& pieces) {
  std::ostringstream terminal;
  {
    TerminalBuffer buffer(*terminal.rdbuf());
    std::ostream out(&buffer);
    for (const std::string& piece : pieces) out << piece;
    out << std::flush;
  }
  return terminal.str();
}

TEST(TerminalBuffer, ShowsControlCharactersAsQuestionMarks) {
  EXPECT_EQ(shown({"a\x1b[2Jb \x1b]0;owned\x07 c\n", "\x9b", "1m\r\b\n"}),
            "a?[2Jb ?]0;owned? c\n?1m??\n");
  EXPECT_EQ(shown({"\xc2\x9b", "31m"}), "?31m");  // the same as one letter of UTF-8
}

TEST(TerminalBuffer, LeavesLinesTabsAndLettersInPiecesAsTheyAre) {
  EXPECT_EQ(shown({"one\ttwo\n\nthree \xe2\x82", "\xac\nlast"}), "one\ttwo\n\nthree €\nlast");
  EXPECT_EQ(shown({""}), "");
}

}  // namespace
}  // namespace muster::program
