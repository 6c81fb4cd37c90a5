// The text form of events: a JSON object on one line, always written in one way, so that reading it
// needs no more than comparing. Only for event.cpp and event_read.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "muster/tune/space/value.h"
#include "muster/tune/trial/trial.h"

namespace muster::tune {

// Note [Payload text]
// No blanks, keys in a fixed order, members that have their usual value left out. Doubles have the
// fewest digits that read back as the same value. Doubles among a trial's values have a point or an
// exponent, so that 2.0 is not read as 2, and are {"double":"nan"} where JSON has no number;
// elsewhere that is "nan", "inf" or "-inf". Texts are UTF-8, mended where they are not. These words
// are in files: they do not change when what is shown to users does.

inline constexpr std::string_view kStateWords[] = {
    "pending", "running", "paused", "complete", "pruned", "failed"};
inline constexpr std::string_view kFailureWords[] = {
    "none", "crash", "oom", "nan", "timeout", "lost", "interrupted"};
inline constexpr std::string_view kActionWords[] = {"continue", "pause", "stop"};

/// How logs of older versions say that an attempt was asked for: by how its reason begins. Where a
/// log has no field for it, this holds.
bool was_asked_in_words(std::string_view reason);

/// Appends to a text that it keeps.
class PayloadWriter {
 public:
  void raw(std::string_view text) { text_ += text; }
  void integer(int64_t value);
  void number(double value);
  void text(std::string_view value);
  void value(const Value& value);
  std::string take() && { return std::move(text_); }

 private:
  std::string text_;
};

/// Reads from the front of a text. What it cannot read throws BadPayload.
class PayloadReader {
 public:
  struct BadPayload {
    size_t at;
  };

  explicit PayloadReader(std::string_view text) : text_(text) {}

  /// Steps over `expected` if the text goes on with it.
  bool skip(std::string_view expected);
  void expect(std::string_view expected);
  int64_t integer();
  double number();
  std::string text();
  Value value();
  void end() const;

  /// The index of the text that comes next among `words`.
  template <size_t N>
  size_t word(const std::string_view (&words)[N]) {
    const std::string given = text();
    for (size_t i = 0; i < N; ++i) {
      if (words[i] == given) return i;
    }
    fail();
  }

 private:
  [[noreturn]] void fail() const { throw BadPayload{at_}; }
  template <class Number>
  Number chars();
  std::string_view rest() const { return text_.substr(at_); }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace muster::tune
