// Bytes of a rank's stream into whole lines.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace muster::launch {

/// Collects bytes and hands out whole lines, so that lines of several ranks never mix. Memory is
/// bounded: a line longer than kMaxLineBytes comes out in pieces, cut between UTF-8 letters. A
/// carriage return before a line feed is dropped; a lone one starts the line anew as it does on a
/// terminal, and what it wipes out is shown at most once a second, so that another program's
/// progress bar neither floods the log nor stays invisible. One thread.
class LineSplitter {
 public:
  static constexpr size_t kMaxLineBytes = 64 << 10;
  static constexpr int64_t kRedrawGapMs = 1000;

  /// Gets each line without its line end; the view is valid during the call only.
  using Emit = std::function<void(std::string_view line)>;

  /// `now_ms` is any steady clock.
  void feed(std::string_view bytes, int64_t now_ms, const Emit& emit);

  /// Hands out a last line that has no line end.
  void flush(const Emit& emit);

 private:
  void end_line(const Emit& emit);
  void carriage_return(int64_t now_ms, const Emit& emit);
  void bound(const Emit& emit);

  std::string line_;
  // The last byte was a carriage return whose meaning the next byte decides.
  bool after_return_ = false;
  int64_t last_redraw_ms_ = INT64_MIN / 2;
};

}  // namespace muster::launch
