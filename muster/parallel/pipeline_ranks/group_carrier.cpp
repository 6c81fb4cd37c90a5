#include "muster/parallel/pipeline_ranks/group_carrier.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/peer_failure.h"
#include "muster/tensor/what_of.h"

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
  post_.lend(peer_of(action), tag_of(action), handed);
}

void GroupCarrier::await(const Action& action) {
  const int peer = peer_of(action);
  let_down_ = true;
  bool is_there = false;
  try {
    is_there = post_.await(peer, tag_of(action));
  } catch (const distributed::PeerFailure&) {
    throw;
  } catch (...) {
    tensor::throw_behind(
        concat(describe(pipeline::partner_of(action)), " has not come from rank ", peer));
  }
  if (!is_there)
    throw environment_error(
        {.refused = "the step was given up", .rule = concat("rank ", peer, " has given it up")});
  let_down_ = false;
}

Handed GroupCarrier::receive(const Action& action, c10::Device device) {
  return post_.receive(peer_of(action), tag_of(action), device);
}

void GroupCarrier::give_up(const std::vector<Action>& list, size_t next) noexcept {
  const auto quietly = [](auto&& pass) {
    try {
      pass();
    } catch (const std::exception&) {  // the failure before it is the one to tell
    }
  };
  quietly([&] { post_.discard_found(); });
  for (; next < list.size(); ++next) {
    const Action& action = list[next];
    quietly([&] {
      if (is_send(action.kind)) post_.send_given_up(peer_of(action), tag_of(action));
      if (is_receive(action.kind) && !post_.is_late())
        post_.discard(peer_of(action), tag_of(action));
    });
  }
}

}  // namespace muster::parallel
