// Messages of a decorated backend, by c10d's calls and by ours (Note [Messages]).
#include "muster/distributed/monitor/decorated_backend.h"
#include "muster/distributed/monitor/decorated_pass.h"

namespace muster::distributed {

DecoratedBackend::WorkPtr DecoratedBackend::send(Tensors& tensors, int to, int tag) {
  const OpCall call{.kind = diagnose::OpKind::kSend,
                    .type = c10d::OpType::SEND,
                    .inputs = tensors,
                    .root = to,
                    .tag = tag};
  return pass(
      call, [](auto& inner, auto&... each) { return inner.send(each...); }, tensors, to, tag);
}

DecoratedBackend::WorkPtr DecoratedBackend::recv(Tensors& tensors, int from, int tag) {
  const OpCall call{.kind = diagnose::OpKind::kRecv,
                    .type = c10d::OpType::RECV,
                    .inputs = tensors,
                    .root = from,
                    .tag = tag};
  return pass(
      call, [](auto& inner, auto&... each) { return inner.recv(each...); }, tensors, from, tag);
}

DecoratedBackend::WorkPtr DecoratedBackend::recvAnysource(Tensors& tensors, int tag) {
  const OpCall call{.kind = diagnose::OpKind::kRecvAny,
                    .type = c10d::OpType::RECVANYSOURCE,
                    .inputs = tensors,
                    .tag = tag};
  return pass(
      call, [](auto& inner, auto&... each) { return inner.recvAnysource(each...); }, tensors, tag);
}

DecoratedBackend::WorkPtr DecoratedBackend::send_message(const Message& message) {
  const Tensors tensors{message.tensor};
  const OpCall call{.kind = diagnose::OpKind::kSend,
                    .type = c10d::OpType::SEND,
                    .inputs = tensors,
                    .root = message.peer,
                    .tag = message.tag,
                    .timeout = message.timeout,
                    .blocks = message.blocks};
  return pass(
      call, [](auto& inner, auto& each) { return send_over(inner, each); }, message);
}

DecoratedBackend::WorkPtr DecoratedBackend::receive_message(const Message& message) {
  const Tensors tensors{message.tensor};
  const bool any = message.peer == kAnyRank;
  const OpCall call{.kind = any ? diagnose::OpKind::kRecvAny : diagnose::OpKind::kRecv,
                    .type = any ? c10d::OpType::RECVANYSOURCE : c10d::OpType::RECV,
                    .inputs = tensors,
                    .root = message.peer,
                    .tag = message.tag,
                    .timeout = message.timeout};
  return pass(
      call, [](auto& inner, auto& each) { return receive_over(inner, each); }, message);
}

}  // namespace muster::distributed
