#include "cli/screen/text_field.h"

namespace muster::cli {

void TextField::step(bool forward) {
  const auto is_within = [&] {
    return cursor_ < text_.size() && (static_cast<unsigned char>(text_[cursor_]) & 0xC0) == 0x80;
  };
  do {
    if (forward ? cursor_ == text_.size() : cursor_ == 0) return;
    forward ? ++cursor_ : --cursor_;
  } while (is_within());
}

bool TextField::handle_key(const Key& key) {
  switch (key.kind) {
    case Key::kLetter:
      text_.insert(cursor_, key.letter);
      cursor_ += key.letter.size();
      return true;
    case Key::kBackspace: {
      const size_t end = cursor_;
      step(/*forward=*/false);
      text_.erase(cursor_, end - cursor_);
      return true;
    }
    case Key::kLeft:
    case Key::kRight:
      step(key.kind == Key::kRight);
      return true;
    case Key::kHome:
      cursor_ = 0;
      return true;
    case Key::kEnd:
      cursor_ = text_.size();
      return true;
    default:
      return false;
  }
}

}  // namespace muster::cli
