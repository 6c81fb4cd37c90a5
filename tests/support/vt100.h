// What a terminal shows of the bytes that a program wrote to it, as far as TERM=vt100 has them.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace muster::test {

/// Letters are one column wide.
class Vt100 {
 public:
  Vt100(size_t columns, size_t rows) : lines_(rows, std::vector<std::string>(columns, " ")) {}

  void feed(std::string_view bytes) {
    for (const char c : bytes) {
      pending_ += c;
      if (interpret(pending_)) pending_.clear();
    }
  }

  std::string line(size_t row) const {
    std::string text;
    for (const std::string& letter : lines_[row]) text += letter;
    return text.substr(0, text.find_last_not_of(' ') + 1);
  }

  std::string text() const {
    std::string out;
    for (size_t row = 0; row < lines_.size(); ++row) out += line(row) + '\n';
    return out;
  }

 private:
  /// False: more is to come.
  bool interpret(std::string_view bytes) {
    const auto first = static_cast<unsigned char>(bytes[0]);
    if (first == 27) return take_escape(bytes);
    if (first < 32 || first == 127) return take_control(bytes[0]), true;
    const size_t wanted = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (bytes.size() < wanted) return false;
    put(std::string(bytes));
    return true;
  }

  void take_control(char c) {
    if (c == '\r') column_ = 0;
    if (c == '\n') row_ = std::min(row_ + 1, lines_.size() - 1);
    if (c == '\b' && column_ > 0) --column_;
    if (c == '\t') column_ = std::min((column_ / 8 + 1) * 8, lines_[0].size() - 1);
  }

  bool take_escape(std::string_view bytes) {
    if (bytes.size() < 2) return false;
    if (bytes[1] == '(' || bytes[1] == ')') return bytes.size() == 3;
    if (bytes[1] != '[') return true;
    if (bytes.size() == 2) return false;
    const char last = bytes.back();
    if (last < '@' || last > '~') return false;
    std::vector<size_t> numbers;
    std::string digits;
    for (const char c : bytes.substr(2)) {
      if (c >= '0' && c <= '9') {
        digits += c;
      } else {
        numbers.push_back(digits.empty() ? 0 : std::stoul(digits));
        digits.clear();
      }
    }
    numbers.resize(2, 0);
    obey(last, numbers[0], numbers[1]);
    return true;
  }

  void obey(char order, size_t a, size_t b) {
    const size_t steps = std::max<size_t>(a, 1), last_row = lines_.size() - 1;
    const size_t last_column = lines_[0].size() - 1;
    switch (order) {
      case 'H':
        row_ = std::min(std::max<size_t>(a, 1) - 1, last_row);
        column_ = std::min(std::max<size_t>(b, 1) - 1, last_column);
        return;
      case 'A':
        row_ -= std::min(row_, steps);
        return;
      case 'B':
        row_ = std::min(row_ + steps, last_row);
        return;
      case 'C':
        column_ = std::min(column_ + steps, last_column);
        return;
      case 'D':
        column_ = std::min(column_, lines_[0].size()) - std::min(column_, steps);
        return;
      case 'K':
        return erase_line(a);
      case 'J':
        for (size_t row = a == 2 ? 0 : row_ + 1; row < lines_.size() && a != 1; ++row)
          std::ranges::fill(lines_[row], " ");
        return erase_line(a);
      default:  // looks and modes
        return;
    }
  }

  void erase_line(size_t which) {
    auto& line = lines_[row_];
    const size_t at = std::min(column_, line.size());
    for (size_t i = which == 0 ? at : 0; i < (which == 1 ? at + 1 : line.size()); ++i)
      line[i] = " ";
  }

  void put(std::string letter) {
    if (column_ >= lines_[0].size()) {
      column_ = 0;
      row_ = std::min(row_ + 1, lines_.size() - 1);
    }
    lines_[row_][column_++] = std::move(letter);
  }

  std::vector<std::vector<std::string>> lines_;
  size_t row_ = 0, column_ = 0;
  std::string pending_;
};

}  // namespace muster::test
