#include "muster/program/screen/screen_writer.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include <signal.h>

#include "muster/base/text.h"
#include "muster/base/text_table.h"

namespace muster::program {
namespace {

using ScreenClock = std::chrono::steady_clock;

/// The first `rows` lines.
std::string_view first_lines(std::string_view text, size_t rows) {
  size_t end = 0;
  for (; rows > 0 && end < text.size(); --rows) {
    const size_t at = text.find('\n', end);
    end = at == std::string_view::npos ? text.size() : at + 1;
  }
  return text.substr(0, end);
}

}  // namespace

std::string redraw_bytes(std::string_view before,
                         std::string_view text,
                         const ScreenWriter::Size& size) {
  // Note [Redrawing in place]
  // The cursor is left below the drawing and is never hidden or saved, so a process that is killed
  // leaves a sound terminal. When a window gets narrower, terminals fold lines that are too long;
  // the way up is counted in folded lines.
  size_t up = 0;
  for (size_t from = 0; from < before.size();) {
    const size_t end = std::min(before.find('\n', from), before.size());
    const size_t columns = columns_of(before.substr(from, end - from));
    up += std::max<size_t>(1, (columns + size.columns - 1) / size.columns);
    from = end + 1;
  }
  std::string out = "\r";
  if (up > 0) out += concat("\x1b[", std::min(up, size.rows - 1), 'A');
  for (size_t from = 0; from < text.size();) {
    const size_t end = std::min(text.find('\n', from), text.size());
    out.append(text.substr(from, end - from)) += "\x1b[K\n";
    from = end + 1;
  }
  return out + "\x1b[J";
}

struct ScreenWriter::State {
  explicit State(Options given) : options(std::move(given)) {}

  const Options options;
  std::mutex mutex;
  std::condition_variable changed;
  std::string lines;    // to be written
  size_t left_out = 0;  // lines beyond most_pending_bytes
  std::string text;     // to be drawn
  bool text_is_new = false;
  bool closing = false, closed = false;

  // The thread's own.
  std::string drawn;
  ScreenClock::time_point next_draw = ScreenClock::now();

  void write(const std::string& new_lines, const std::string& new_text, bool last);
};

/// Lines go where the drawing was, the drawing below them.
void ScreenWriter::State::write(const std::string& new_lines,
                                const std::string& new_text,
                                bool last) {
  if (!options.terminal) {
    if (!new_lines.empty()) options.write(new_lines);
    return;
  }
  Size size = options.size();
  size = {std::max<size_t>(size.columns, 1), std::max<size_t>(size.rows, 2)};
  std::string bytes;
  if (!new_lines.empty()) {
    bytes = redraw_bytes(std::exchange(drawn, ""), "", size) + new_lines;
  }
  // What is drawn again must be within reach of the cursor; the last drawing is whole.
  const std::string shown(last ? new_text : first_lines(new_text, size.rows - 1));
  bytes += redraw_bytes(drawn, shown, size);
  drawn = shown;
  options.write(bytes);
}

void ScreenWriter::loop(State& state) {
  std::unique_lock lock(state.mutex);
  const auto gap = std::chrono::duration_cast<ScreenClock::duration>(
      std::chrono::duration<double>(state.options.least_gap_s));
  for (bool last = false; !last;) {
    state.changed.wait(lock,
                       [&] { return state.closing || state.text_is_new || !state.lines.empty(); });
    if (state.options.terminal)
      state.changed.wait_until(lock, state.next_draw, [&] { return state.closing; });
    last = state.closing;
    std::string lines = std::exchange(state.lines, "");
    if (const size_t n = std::exchange(state.left_out, 0); n > 0)
      lines += concat("muster: ", n, " lines are left out: they came faster than they were read\n");
    const std::string text = state.text;
    state.text_is_new = false;
    lock.unlock();
    state.write(lines, text, last);
    state.next_draw = ScreenClock::now() + gap;
    lock.lock();
  }
  state.closed = true;
  state.changed.notify_all();
}

ScreenWriter::ScreenWriter(Options options) : state_(std::make_shared<State>(std::move(options))) {
  // Signals are for the thread that runs the study.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  thread_ = std::thread([state = state_] { loop(*state); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ScreenWriter::~ScreenWriter() { close(); }

void ScreenWriter::line(std::string_view text) {
  const std::lock_guard lock(state_->mutex);
  if (state_->lines.size() > state_->options.most_pending_bytes) {
    ++state_->left_out;
    return;
  }
  state_->lines.append(text) += '\n';
  state_->changed.notify_all();
}

void ScreenWriter::draw(std::string text) {
  if (!state_->options.terminal) return;
  const std::lock_guard lock(state_->mutex);
  state_->text = std::move(text);
  state_->text_is_new = true;
  state_->changed.notify_all();
}

bool ScreenWriter::close(double patience_s) {
  if (!thread_.joinable()) return true;
  std::unique_lock lock(state_->mutex);
  state_->closing = true;
  state_->changed.notify_all();
  const auto closed = [this] { return state_->closed; };
  if (!state_->changed.wait_for(lock, std::chrono::duration<double>(patience_s), closed)) {
    thread_.detach();
    return false;
  }
  lock.unlock();
  thread_.join();
  return true;
}

}  // namespace muster::program
