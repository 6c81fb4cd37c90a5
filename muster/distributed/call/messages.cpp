#include "muster/distributed/call/messages.h"

#include <algorithm>
#include <vector>

#include <c10/core/GradMode.h>

#include "muster/base/text.h"
#include "muster/distributed/call/contribution.h"
#include "muster/distributed/call/names.h"

namespace muster::distributed {

using WorkOfMessage = c10::intrusive_ptr<c10d::Work>;

WorkOfMessage send_over(c10d::Backend& backend, const Message& message) {
  if (auto* ours = dynamic_cast<Messenger*>(&backend)) return ours->send_message(message);
  std::vector<at::Tensor> tensors{message.tensor};
  return backend.send(tensors, message.peer, message.tag);
}

WorkOfMessage receive_over(c10d::Backend& backend, const Message& message) {
  if (auto* ours = dynamic_cast<Messenger*>(&backend)) return ours->receive_message(message);
  std::vector<at::Tensor> tensors{message.tensor};
  if (message.peer == kAnyRank) return backend.recvAnysource(tensors, message.tag);
  return backend.recv(tensors, message.peer, message.tag);
}

void end_in_order(c10d::Backend& backend) {
  if (auto* ours = dynamic_cast<Messenger*>(&backend)) ours->end_in_order();
}

MessageHead MessageHead::of(const at::Tensor& tensor, int tag) {
  MessageHead head{.bytes = tensor.nbytes(),
                   .tag = tag,
                   .dtype = static_cast<uint8_t>(tensor.scalar_type()),
                   .dims = static_cast<uint8_t>(std::min<int64_t>(tensor.dim(), 255)),
                   .elements = tensor.numel()};
  for (int d = 0; d < std::min<int>(kMaxDims, static_cast<int>(tensor.dim())); ++d)
    head.sizes[d] = tensor.size(d);
  return head;
}

bool MessageHead::fits(const at::Tensor& tensor) const {
  return bytes == tensor.nbytes() && dtype == static_cast<uint8_t>(tensor.scalar_type());
}

std::string MessageHead::describe() const {
  const auto type = static_cast<at::ScalarType>(dtype);
  return dims > kMaxDims ? concat(dtype_name(type), " of ", elements, " elements")
                         : shape_text(type, at::IntArrayRef(sizes, static_cast<size_t>(dims)));
}

std::string send_failure(
    const std::string& what, int tag, int from, int to, const std::string& why) {
  return concat("send ", what, " tag ", tag, " from rank ", from, " to rank ", to, ": ", why);
}

std::string receive_failure(
    const at::Tensor& into, int tag, int to, int from, const std::string& why) {
  return concat("recv ",
                shape_text(into.scalar_type(), into.sizes()),
                " tag ",
                tag,
                " of rank ",
                to,
                " from ",
                from < 0 ? "any rank" : concat("rank ", from),
                ": ",
                why);
}

Error misfit(const std::string& failure) {
  return usage_error(
      {.refused = failure, .rule = "a message is received into a tensor of its dtype and size"});
}

std::string misfit_words(int from, const std::string& sent, const at::Tensor& into) {
  return concat(
      "rank ", from, " sent ", sent, " for ", shape_text(into.scalar_type(), into.sizes()));
}

std::string late_words(std::chrono::milliseconds timeout) {
  return concat("timed out after ", timeout.count(), " ms");
}

at::Tensor dense(const at::Tensor& tensor) {
  const c10::NoGradGuard no_grad;
  return tensor.resolve_conj().resolve_neg().contiguous();
}

at::Tensor own_copy(const at::Tensor& tensor) {
  const c10::NoGradGuard no_grad;
  const at::Tensor copy = dense(tensor);
  return copy.is_alias_of(tensor) ? copy.clone() : copy;
}

}  // namespace muster::distributed
