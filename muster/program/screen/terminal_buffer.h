// What a terminal is shown of texts that come from anywhere.
#pragma once

#include <streambuf>
#include <string>
#include <string_view>

namespace muster::program {

/// Lines as a terminal may be shown them: '?' in place of control characters, but for tabs, and of bytes that are no
/// UTF-8.
std::string printable_lines(std::string_view text);

/// Passes lines on, with '?' in place of control characters: the name of a study, or what a trial
/// wrote before it died, must not clear the screen or rename the window. One thread.
class TerminalBuffer final : public std::streambuf {
 public:
  explicit TerminalBuffer(std::streambuf& to) : to_(to) {}
  ~TerminalBuffer() override { sync(); }

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;

 private:
  bool pass_on(std::string_view line);

  std::streambuf& to_;
  std::string line_;  // so far; a letter may come in two pieces
};

}  // namespace muster::program
