// Messages between ranks that are threads: see Note [Messages].
#include <algorithm>
#include <utility>

#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "muster/base/error.h"
#include "muster/distributed/thread/thread_exchange.h"

namespace muster::distributed {

std::string ThreadExchange::Receive::failure(const std::string& why) const {
  return receive_failure(tensor, tag, to, from, why);
}

PendingWorkPtr ThreadExchange::send(int from, const Message& message) {
  auto work = c10::make_intrusive<PendingWork>(
      from, c10d::OpType::SEND, messages_++, std::vector<at::Tensor>{message.tensor});
  Sent mine{from, message.peer, message.tag, message.tensor};
  std::unique_lock lock(mutex_);
  const auto gone = [&] {
    const std::string self = departure(from);
    return self.empty() ? departure(message.peer) : self;
  };
  const auto waiting = [&] {
    return std::find_if(receives_.begin(), receives_.end(), [&](const Receive& receive) {
      return receive.takes(mine);
    });
  };
  std::string why = gone();
  if (why.empty() && waiting() == receives_.end()) {
    lock.unlock();
    mine.tensor = message.stays_unchanged ? dense(message.tensor) : own_copy(message.tensor);
    mine.ready = tensor::StreamMark::of_current(tensor::stream_devices({mine.tensor}));
    lock.lock();
    why = gone();  // meanwhile
  }
  const auto found = why.empty() ? waiting() : receives_.end();
  if (found != receives_.end()) {
    Receive receive = std::move(*found);
    receives_.erase(found);
    lock.unlock();
    deliver(mine, std::move(receive));
  } else {
    if (why.empty()) sent_.push_back(std::move(mine));
    lock.unlock();
  }
  if (why.empty())
    work->complete();
  else
    work->fail(send_failure(MessageHead::of(message.tensor, message.tag).describe(),
                            message.tag,
                            from,
                            message.peer,
                            why));
  return work;
}

PendingWorkPtr ThreadExchange::receive(int to, const Message& message) {
  const auto op = message.peer < 0 ? c10d::OpType::RECVANYSOURCE : c10d::OpType::RECV;
  auto work = c10::make_intrusive<PendingWork>(
      to, op, messages_++, std::vector<at::Tensor>{message.tensor});
  Receive mine{message.peer,
               to,
               message.tag,
               message.tensor,
               work,
               message.timeout,
               Clock::now() + message.timeout};
  std::unique_lock lock(mutex_);
  const auto found =
      std::find_if(sent_.begin(), sent_.end(), [&](const Sent& sent) { return mine.takes(sent); });
  if (found != sent_.end()) {
    const Sent sent = std::move(*found);
    sent_.erase(found);
    lock.unlock();
    deliver(sent, std::move(mine));
    return work;
  }
  std::string gone = departure(to);
  if (gone.empty()) gone = departure(message.peer);  // any rank never leaves
  if (gone.empty()) {
    mine.ready = tensor::StreamMark::of_current(tensor::stream_devices({mine.tensor}));
    receives_.push_back(std::move(mine));
    lock.unlock();
    wake_watchdog();
    return work;
  }
  lock.unlock();
  work->fail(mine.failure(gone));
  return work;
}

void ThreadExchange::deliver(const Sent& sent, Receive receive) {
  const at::Tensor& from = sent.tensor;
  const at::Tensor& into = receive.tensor;
  const MessageHead head = MessageHead::of(from, sent.tag);
  if (!head.fits(into)) {
    return receive.work->fail(std::make_exception_ptr(
        misfit(receive.failure(misfit_words(sent.from, head.describe(), into)))));
  }
  try {
    sent.ready.wait_on_current();
    receive.ready.wait_on_current();
    const c10::NoGradGuard no_grad;
    at::Tensor(into).copy_(from.reshape(into.sizes()));
    // The copy of a message may be freed before the device has read it.
    if (from.device().type() != at::kCPU)
      at::Tensor(from).record_stream(
          c10::impl::VirtualGuardImpl(from.device().type()).getStream(from.device()));
  } catch (const c10::Error& error) {
    return receive.work->fail(std::make_exception_ptr(
        usage_error({.refused = receive.failure(error.what_without_backtrace())})));
  } catch (...) {  // nobody else knows of it any more
    return receive.work->fail(std::current_exception());
  }
  receive.work->set_source(sent.from);
  receive.tensor.reset();
  PendingWork::end_for_another(std::move(receive.work));
}

}  // namespace muster::distributed
