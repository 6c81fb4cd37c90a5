// What a terminal is shown of texts that come from anywhere.
#pragma once

#include <streambuf>
#include <string>

namespace muster::program {

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
