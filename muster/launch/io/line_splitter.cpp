#include "muster/launch/io/line_splitter.h"

namespace muster::launch {

void LineSplitter::feed(std::string_view bytes, int64_t now_ms, const Emit& emit) {
  while (!bytes.empty()) {
    if (after_return_ && bytes[0] != '\n') carriage_return(now_ms, emit);
    after_return_ = false;
    const size_t at = bytes.find_first_of("\r\n");
    line_.append(bytes.substr(0, at));
    bound(emit);
    if (at == std::string_view::npos) return;
    if (bytes[at] == '\n') {
      end_line(emit);
    } else {
      after_return_ = true;
    }
    bytes.remove_prefix(at + 1);
  }
}

void LineSplitter::flush(const Emit& emit) {
  after_return_ = false;
  if (!line_.empty()) end_line(emit);
}

void LineSplitter::end_line(const Emit& emit) {
  emit(line_);
  line_.clear();
}

void LineSplitter::carriage_return(int64_t now_ms, const Emit& emit) {
  if (!line_.empty() && now_ms - last_redraw_ms_ >= kRedrawGapMs) {
    last_redraw_ms_ = now_ms;
    emit(line_);
  }
  line_.clear();
}

void LineSplitter::bound(const Emit& emit) {
  while (line_.size() > kMaxLineBytes) {
    size_t cut = kMaxLineBytes;
    // A UTF-8 letter has at most three bytes behind its first; longer runs of 10xxxxxx are not
    // UTF-8.
    for (int i = 0; i < 3 && (static_cast<unsigned char>(line_[cut]) & 0xC0) == 0x80; ++i) --cut;
    emit(std::string_view(line_).substr(0, cut));
    line_.erase(0, cut);
  }
}

}  // namespace muster::launch
