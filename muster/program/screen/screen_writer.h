// Writes to a terminal or a log from a thread of its own, so that a reader who is slow (a stopped
// terminal, a full pipe) holds nobody up.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace muster::program {

/// Lines in their order, and one text that stays below them and is drawn in place: the newest
/// wins. Any thread may call.
class ScreenWriter {
 public:
  struct Size {
    size_t columns = 80;
    size_t rows = 24;
  };
  struct Options {
    std::function<void(std::string_view)> write;  ///< called by the thread, whole drawings at once
    bool terminal = false;                        ///< else only lines are written
    std::function<Size()> size = [] { return Size{}; };  ///< asked at each drawing
    double least_gap_s = 1;                              ///< between two drawings
    size_t most_pending_bytes = 1 << 20;  ///< of lines; above, further ones are counted, not kept
  };

  explicit ScreenWriter(Options options);
  ~ScreenWriter();  ///< close()
  ScreenWriter(const ScreenWriter&) = delete;
  ScreenWriter& operator=(const ScreenWriter&) = delete;

  void line(std::string_view text);  ///< a line end is added

  /// Lines ended by "\n", each at most as wide as the terminal; what does not fit below is left out
  /// until close(). Nothing without a terminal.
  void draw(std::string text);

  /// Draws what came last, leaves it on the screen, writes what is pending and stops the thread. A
  /// writer that is stuck is left behind after `patience_s`; false then.
  bool close(double patience_s = 10);

 private:
  struct State;
  static void loop(State& state);
  std::shared_ptr<State> state_;  // shared with the thread, which may be left behind
  std::thread thread_;
};

/// The bytes that put `text` in the place of what was drawn before: `before` is that text, drawn
/// when the terminal was as wide as `text` assumes or wider. Pure.
std::string redraw_bytes(std::string_view before,
                         std::string_view text,
                         const ScreenWriter::Size& size);

}  // namespace muster::program
