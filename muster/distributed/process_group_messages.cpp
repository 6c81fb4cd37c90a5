// Messages between two ranks of a group. See Note [Messages].
#include <utility>

#include "muster/distributed/call/contribution.h"
#include "muster/distributed/group_checks.h"
#include "muster/distributed/group_parts.h"
#include "muster/distributed/meet/timeout.h"

namespace muster::distributed {
namespace {

std::chrono::milliseconds timeout_of(const MessageOptions& options) {
  return own_timeout(options.timeout, "the timeout of a message");
}

/// What is wrong is refused before it is recorded, or counted by a fault plan.
Message checked_send(const c10d::ProcessGroup& group,
                     const at::Tensor& tensor,
                     int to,
                     const MessageOptions& options) {
  check_movable(group, "send", tensor, /*written=*/false);
  check_message("send", {tensor}, to, options.tag, group.getSize());
  return {.tensor = tensor,
          .peer = to,
          .tag = options.tag,
          .timeout = timeout_of(options),
          .stays_unchanged = options.stays_unchanged};
}

Message checked_receive(const c10d::ProcessGroup& group,
                        const at::Tensor& tensor,
                        int from,
                        const MessageOptions& options) {
  check_movable(group, "recv", tensor, /*written=*/true);
  const int peer = from == kAnyRank ? group.getRank() : from;
  check_message("recv", {tensor}, peer, options.tag, group.getSize());
  return {.tensor = tensor, .peer = from, .tag = options.tag, .timeout = timeout_of(options)};
}

c10d::Backend& backend_for(c10d::ProcessGroup& group, const at::Tensor& tensor) {
  return *group.getBackend(tensor.device().type());
}

}  // namespace

Work ProcessGroup::send_async(const at::Tensor& tensor,
                              int to,
                              const MessageOptions& options) const {
  const Message message = checked_send(*state_->group, tensor, to, options);
  return {send_over(backend_for(*state_->group, tensor), message), at::Tensor()};
}

void ProcessGroup::send(const at::Tensor& tensor, int to, const MessageOptions& options) const {
  Message message = checked_send(*state_->group, tensor, to, options);
  message.blocks = true;
  const auto work = send_over(backend_for(*state_->group, tensor), message);
  if (work->isCompleted()) work->wait();
}

Work ProcessGroup::recv_async(at::Tensor tensor, int from, const MessageOptions& options) const {
  const Message message = checked_receive(*state_->group, tensor, from, options);
  return {receive_over(backend_for(*state_->group, tensor), message), tensor};
}

int ProcessGroup::recv(at::Tensor tensor, int from, const MessageOptions& options) const {
  Message message = checked_receive(*state_->group, tensor, from, options);
  message.blocks = true;
  const Work received(receive_over(backend_for(*state_->group, tensor), message), tensor);
  received.wait();
  return received.source();
}

}  // namespace muster::distributed
