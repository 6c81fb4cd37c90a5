#include "muster/program/screen/terminal_buffer.h"

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/text.h"
#include "muster/base/text_table.h"

namespace muster::program {
namespace {

std::string printable_line(std::string_view line) {
  // Tabs are the one control character that texts of ours have.
  std::vector<std::string> parts = split(line, '\t');
  for (std::string& part : parts) part = printable(part);
  return join(parts, "\t");
}

}  // namespace

std::string printable_lines(std::string_view text) {
  std::vector<std::string> lines = split(text, '\n');
  for (std::string& line : lines) line = printable_line(line);
  return join(lines, "\n");
}

TerminalBuffer::int_type TerminalBuffer::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char letter = traits_type::to_char_type(c);
  return xsputn(&letter, 1) == 1 ? c : traits_type::eof();
}

std::streamsize TerminalBuffer::xsputn(const char* text, std::streamsize count) {
  line_.append(text, static_cast<size_t>(count));
  size_t from = 0;
  for (size_t end; (end = line_.find('\n', from)) != std::string::npos; from = end + 1) {
    if (!pass_on(std::string_view(line_).substr(from, end - from)) ||
        traits_type::eq_int_type(to_.sputc('\n'), traits_type::eof()))
      return 0;
  }
  line_.erase(0, from);
  return count;
}

int TerminalBuffer::sync() {
  const bool passed = pass_on(line_);
  line_.clear();
  return passed && to_.pubsync() == 0 ? 0 : -1;
}

bool TerminalBuffer::pass_on(std::string_view line) {
  const std::string shown = printable_line(line);
  const auto size = static_cast<std::streamsize>(shown.size());
  return to_.sputn(shown.data(), size) == size;
}

}  // namespace muster::program
