// A line that is typed.
#pragma once

#include <cstddef>
#include <string>

#include "cli/screen/full_screen.h"

namespace muster::cli {

class TextField {
 public:
  TextField() = default;
  explicit TextField(std::string text) : text_(std::move(text)), cursor_(text_.size()) {}

  const std::string& text() const { return text_; }
  /// What stands before the cursor.
  std::string before() const { return text_.substr(0, cursor_); }
  /// Letters, backspace, left, right, home and end; false for any other key.
  bool handle_key(const Key& key);

 private:
  void step(bool forward);

  std::string text_;
  size_t cursor_ = 0;  // in bytes, never within a code point
};

}  // namespace muster::cli
