// Progress as text: one line for a terminal, or plain lines for a log. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "muster/track/progress.h"

namespace muster::program {

/// "train 2/6 ━━━━━━━━━━╸───── 63% · loss 0.4123 · accuracy 0.871 · 5.4k samples/s · 1m12s left",
/// at most `width` columns for any width from 1; what does not fit is left out, the least needed
/// first. With `colour`, escape sequences (not counted in the width) dim the unfinished part.
std::string render_bar(const track::ProgressEvent& event, size_t width, bool colour);

/// "train epoch 2/6: 63%, loss 0.4123, accuracy 0.871, 5400 samples/s, 1m12s left".
std::string render_plain(const track::ProgressEvent& event);

/// Chooses the events that are worth a line in a log: the end of each phase, and every tenth of the
/// whole run.
class PlainPace {
 public:
  bool wants(const track::ProgressEvent& event);

 private:
  int64_t tenth_ = 0;
};

}  // namespace muster::program
