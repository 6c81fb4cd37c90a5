#include "muster/parallel/thread_board.h"

#include <algorithm>
#include <utility>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <c10/core/GradMode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::parallel {

ThreadWork::ThreadWork(int rank,
                       c10d::OpType op,
                       uint64_t sequence,
                       std::vector<at::Tensor> outputs)
    : c10d::Work(rank, op),
      sequence_(sequence),
      outputs_(std::move(outputs)),
      future_(c10::make_intrusive<c10::ivalue::Future>(
          c10::ListType::create(c10::TensorType::get()), stream_devices(outputs_))) {}

void ThreadWork::complete() {
  finish();
  future_->markCompleted(c10::IValue(outputs_));
}

void ThreadWork::fail(const std::string& text) {
  const auto error = std::make_exception_ptr(environment_error({.refused = text}));
  finish(error);
  future_->setError(error);
}

bool ThreadWork::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  if (timeout == kNoTimeout) {
    cv_.wait(lock, [&] { return completed_; });
  } else if (!cv_.wait_for(lock, timeout, [&] { return completed_; })) {
    throw environment_error(
        {.refused = concat(c10d::opTypeToString(opType_), " #", sequence_, " of rank ", rank_),
         .rule = concat("not complete after ", timeout.count(), " ms")});
  }
  if (exception_) std::rethrow_exception(exception_);
  lock.unlock();
  if (!future_->devices().empty()) future_->wait();  // this thread's streams wait
  return true;
}

ThreadBoard::ThreadBoard(int world_size, std::chrono::milliseconds timeout)
    : world_size_(world_size), timeout_(timeout), watchdog_([this] { watch(); }) {}

ThreadBoard::~ThreadBoard() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  watchdog_.join();
}

void ThreadBoard::set_timeout(std::chrono::milliseconds timeout) {
  const std::lock_guard lock(mutex_);
  timeout_ = timeout;
}

std::string ThreadBoard::departure(int rank) const {
  const auto found = left_.find(rank);
  if (found == left_.end()) return "";
  return found->second.empty() ? concat("rank ", rank, " has ended")
                               : concat("rank ", rank, " failed: ", found->second);
}

std::string ThreadBoard::missing_text(uint64_t sequence,
                                      const Collective& op,
                                      const std::string& reason) const {
  std::vector<std::string> here, missing;
  const Contribution* any = nullptr;
  for (int rank = 0; rank < world_size_; ++rank) {
    (op.works[rank] ? here : missing).push_back(std::to_string(rank));
    if (op.works[rank]) any = &op.parts[rank];
  }
  return concat(any->describe(),
                " #",
                sequence,
                " of thread ranks: rank ",
                join(missing, ", "),
                " did not come, rank ",
                join(here, ", "),
                " waited",
                reason.empty() ? "" : " (" + reason + ")");
}

c10::intrusive_ptr<c10d::Work> ThreadBoard::post(int rank,
                                                 uint64_t sequence,
                                                 Contribution contribution) {
  auto work = c10::make_intrusive<ThreadWork>(
      rank,
      contribution.op,
      sequence,
      contribution.outputs.empty() ? contribution.inputs : contribution.outputs);
  StreamMark ready = StreamMark::of_current(stream_devices(contribution.inputs));
  Collective whole;
  std::vector<c10::intrusive_ptr<ThreadWork>> failed;
  std::string failure;
  {
    const std::lock_guard lock(mutex_);
    Collective& op = collectives_[sequence];
    if (op.works.empty()) {
      op.parts.resize(static_cast<size_t>(world_size_));
      op.works.resize(static_cast<size_t>(world_size_));
      op.ready.resize(static_cast<size_t>(world_size_));
      op.deadline = Clock::now() + timeout_;
    }
    op.parts[rank] = std::move(contribution);
    op.works[rank] = work;
    op.ready[rank] = std::move(ready);
    ++op.arrived;
    if (op.arrived == world_size_) {
      whole = std::move(op);
      collectives_.erase(sequence);
    } else {
      for (const auto& [gone, why] : left_) {
        if (!op.works[gone] && failure.empty())
          failure = missing_text(sequence, op, departure(gone));
      }
      if (!failure.empty()) {
        failed = op.works;
        collectives_.erase(sequence);
      }
    }
  }
  changed_.notify_all();
  for (const auto& other : failed) {
    if (other) other->fail(failure);
  }
  if (whole.arrived == world_size_) {
    try {
      for (const StreamMark& mark : whole.ready) mark.wait_on_current();
      run_collective(whole.parts);
    } catch (const std::exception& error) {
      for (const auto& each : whole.works) each->fail(error.what());
      return work;
    }
    for (const auto& each : whole.works) each->complete();
  }
  return work;
}

c10::intrusive_ptr<c10d::Work> ThreadBoard::send(int from, int to, int tag, at::Tensor tensor) {
  std::unique_lock lock(mutex_);
  auto work = c10::make_intrusive<ThreadWork>(
      from, c10d::OpType::SEND, messages_++, std::vector<at::Tensor>{tensor});
  const auto match = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& other) {
    return !other.sends && other.to == to && other.tag == tag &&
           (other.from == from || other.from == -1);
  });
  if (match == pending_.end()) {
    const std::string gone = departure(to);
    if (gone.empty()) {
      const std::vector<c10::Device> devices = stream_devices({tensor});
      pending_.push_back({from,
                          to,
                          tag,
                          true,
                          std::move(tensor),
                          work,
                          Clock::now() + timeout_,
                          StreamMark::of_current(devices)});
      changed_.notify_all();
      return work;
    }
    lock.unlock();
    work->fail(concat("send from rank ", from, " to rank ", to, ": ", gone));
    return work;
  }
  const Pending receiver = std::move(*match);
  pending_.erase(match);
  lock.unlock();
  const c10::NoGradGuard no_grad;
  receiver.ready.wait_on_current();
  at::Tensor(receiver.tensor).copy_(tensor);
  receiver.work->set_source(from);
  receiver.work->complete();
  work->complete();
  return work;
}

c10::intrusive_ptr<c10d::Work> ThreadBoard::receive(int source,
                                                    int to,
                                                    int tag,
                                                    at::Tensor tensor) {
  std::unique_lock lock(mutex_);
  auto work =
      c10::make_intrusive<ThreadWork>(to,
                                      source < 0 ? c10d::OpType::RECVANYSOURCE : c10d::OpType::RECV,
                                      messages_++,
                                      std::vector<at::Tensor>{tensor});
  const auto match = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& other) {
    return other.sends && other.to == to && other.tag == tag &&
           (source == -1 || other.from == source);
  });
  if (match == pending_.end()) {
    const std::string gone = source >= 0 ? departure(source) : "";
    if (gone.empty()) {
      const std::vector<c10::Device> devices = stream_devices({tensor});
      pending_.push_back({source,
                          to,
                          tag,
                          false,
                          std::move(tensor),
                          work,
                          Clock::now() + timeout_,
                          StreamMark::of_current(devices)});
      changed_.notify_all();
      return work;
    }
    lock.unlock();
    work->fail(concat("receive of rank ", to, " from rank ", source, ": ", gone));
    return work;
  }
  const Pending sender = std::move(*match);
  pending_.erase(match);
  lock.unlock();
  const c10::NoGradGuard no_grad;
  sender.ready.wait_on_current();
  tensor.copy_(sender.tensor);
  work->set_source(sender.from);
  work->complete();
  sender.work->complete();
  return work;
}

void ThreadBoard::leave(int rank, const std::string& why) {
  std::vector<std::pair<c10::intrusive_ptr<ThreadWork>, std::string>> failed;
  {
    const std::lock_guard lock(mutex_);
    left_.emplace(rank, why);
    for (auto op = collectives_.begin(); op != collectives_.end();) {
      if (op->second.works[rank]) {
        ++op;
        continue;
      }
      const std::string text = missing_text(op->first, op->second, departure(rank));
      for (const auto& work : op->second.works) {
        if (work) failed.emplace_back(work, text);
      }
      op = collectives_.erase(op);
    }
    std::erase_if(pending_, [&](const Pending& message) {
      const bool hopeless = message.sends ? message.to == rank : message.from == rank;
      if (hopeless)
        failed.emplace_back(
            message.work,
            concat(
                message.sends ? "send to" : "receive from", " rank ", rank, ": ", departure(rank)));
      return hopeless;
    });
  }
  for (const auto& [work, text] : failed) work->fail(text);
}

void ThreadBoard::watch() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    const auto now = Clock::now();
    auto next = Clock::time_point::max();
    std::vector<std::pair<c10::intrusive_ptr<ThreadWork>, std::string>> late;
    for (auto op = collectives_.begin(); op != collectives_.end();) {
      if (op->second.deadline > now) {
        next = std::min(next, op->second.deadline);
        ++op;
        continue;
      }
      const std::string text =
          missing_text(op->first, op->second, concat("timed out after ", timeout_.count(), " ms"));
      for (const auto& work : op->second.works) {
        if (work) late.emplace_back(work, text);
      }
      op = collectives_.erase(op);
    }
    std::erase_if(pending_, [&](const Pending& message) {
      const bool is_late = message.deadline <= now;
      if (!is_late) next = std::min(next, message.deadline);
      if (is_late) {
        late.emplace_back(message.work,
                          concat(message.sends ? "send" : "receive",
                                 " between rank ",
                                 message.from,
                                 " and rank ",
                                 message.to,
                                 ": the other side did not come within ",
                                 timeout_.count(),
                                 " ms"));
      }
      return is_late;
    });
    if (!late.empty()) {
      lock.unlock();
      for (const auto& [work, text] : late) work->fail(text);
      lock.lock();
      continue;
    }
    // A fixed far point instead of max(): adding to it inside wait_until would overflow.
    changed_.wait_until(lock, std::min(next, now + std::chrono::hours(1)));
  }
}

}  // namespace muster::parallel
