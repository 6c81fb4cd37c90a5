// What a study keeps beside its log, and takes in instead of it: Notes [Outlines], [Calls beside the log].
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/tune/run/study.h"

namespace muster::tune {
namespace {

// From one outline to the next. One that holds many trials (all that are paused) is as long as many
// events, and is written less often: it costs a few times what the log does, however long that is.
constexpr int64_t kOutlineEvents = 256;
constexpr size_t kOutlineBytesPerEvent = 1024;

}  // namespace

/// False: the core is as it was.
bool Study::take_outline() {
  const Storage::Outline outline = storage_->outline();
  if (outline.event == 0) return false;
  std::vector<CallPiece> pieces;
  if (core_.needs_calls()) {
    pieces = storage_->call_pieces(outline.event);
    calls_anew_ = !core_.is_whole(pieces);
  }
  if (!core_.take_outline(outline.text, outline.event, pieces)) return false;
  core_.keep_calls(outline.event);
  resumed_events_ = outline.event;
  outline_due_ = outline.event + kOutlineEvents;
  return true;
}

/// Now and then, for those who ask: Note [Outlines].
void Study::keep_outline(std::span<const Event> ours) {
  if (ours.empty() || ours.back().id < outline_due_) return;
  outline_due_ = ours.back().id + kOutlineEvents;
  std::string chain;
  if (!core_.has_outline() || !keep_calls(ours.back(), chain)) return;
  const std::string text = core_.outline(chain).value();
  storage_->keep_outline(ours.back(), text);
  outline_due_ =
      ours.back().id +
      std::max(kOutlineEvents, static_cast<int64_t>(text.size() / kOutlineBytesPerEvent));
}

/// What the outline of this event needs besides. False: it cannot be had.
bool Study::keep_calls(const Event& newest, std::string& chain) {
  if (core_.call_rules().empty()) return true;
  const CallPiece before = calls_anew_ ? CallPiece{} : storage_->last_call_piece();
  const auto piece = core_.calls_behind(before);
  if (!piece) return false;
  storage_->keep_call_piece(newest, *piece);
  core_.forget_calls(piece->event);
  calls_anew_ = false;
  chain = piece->chain;
  return true;
}

/// A core that is to be fed the whole log keeps what is not stored yet.
void Study::begin_calls(StudyCore& core) {
  const std::string rules = core.call_rules();
  if (rules.empty()) return;
  const CallPiece last = calls_anew_ ? CallPiece{} : storage_->last_call_piece();
  core.keep_calls(last.rules == rules ? last.event : 0);
}

}  // namespace muster::tune
