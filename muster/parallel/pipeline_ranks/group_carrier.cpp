#include "muster/parallel/pipeline_ranks/group_carrier.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::parallel {
namespace {

using pipeline::Action;
using pipeline::ActionKind;

/// One for each boundary and direction.
int tag_of(const Action& action) {
  const Action send = is_send(action.kind) ? action : pipeline::partner_of(action);
  return static_cast<int>(2 * send.stage + (send.kind == ActionKind::kSendGradient));
}

}  // namespace

void GroupCarrier::send(const Action& action, Handed handed) {
  post_.send(peer_of(action), tag_of(action), handed);
}

void GroupCarrier::await(const Action& action) {
  const int peer = peer_of(action);
  let_down_ = true;
  if (!post_.await(peer, tag_of(action)))
    throw environment_error(
        {.refused = "the step was given up", .rule = concat("rank ", peer, " has given it up")});
  let_down_ = false;
}

Handed GroupCarrier::receive(const Action& action, c10::Device device) {
  return post_.receive(peer_of(action), tag_of(action), device);
}

bool GroupCarrier::give_up(const std::vector<Action>& list, size_t next) noexcept {
  bool whole = true;
  try {
    post_.discard_found();
  } catch (const std::exception&) {
    whole = false;
  }
  for (; next < list.size(); ++next) {
    const Action& action = list[next];
    try {
      if (is_send(action.kind)) post_.send_given_up(peer_of(action), tag_of(action));
      // Whoever does not come once would be waited for again and again.
      if (is_receive(action.kind) && whole) post_.discard(peer_of(action), tag_of(action));
    } catch (const std::exception&) {  // the failure before it is the one to tell
      whole = false;
    }
  }
  return whole;
}

}  // namespace muster::parallel
