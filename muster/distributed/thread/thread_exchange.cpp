#include "muster/distributed/thread/thread_exchange.h"

#include <algorithm>
#include <utility>

#include <c10/core/GradMode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::distributed {
namespace {

/// Those of what is read and of what is written.
std::vector<c10::Device> devices_of(const Contribution& part) {
  std::vector<at::Tensor> tensors = part.inputs;
  tensors.insert(tensors.end(), part.outputs.begin(), part.outputs.end());
  return tensor::stream_devices(tensors);
}

}  // namespace

ThreadExchange::ThreadExchange(int world_size)
    : world_size_(world_size), watchdog_([this] { run_watchdog(); }) {}

ThreadExchange::~ThreadExchange() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (watchdog_.get_id() == std::this_thread::get_id()) {
    *gone_ = true;
    watchdog_.detach();
  } else {
    watchdog_.join();
  }
}

std::string ThreadExchange::departure(int rank) const {
  const auto found = left_.find(rank);
  if (found == left_.end()) return "";
  return found->second.empty() ? concat("rank ", rank, " has ended")
                               : concat("rank ", rank, " failed: ", found->second);
}

std::string ThreadExchange::missing_text(uint64_t sequence,
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

PendingWorkPtr ThreadExchange::post(int rank,
                                    uint64_t sequence,
                                    Contribution contribution,
                                    std::chrono::milliseconds timeout) {
  auto work =
      c10::make_intrusive<PendingWork>(rank, contribution.op, sequence, contribution.results());
  tensor::StreamMark ready = tensor::StreamMark::of_current(devices_of(contribution));
  Collective whole;
  std::vector<PendingWorkPtr> failed;
  std::string failure;
  {
    std::unique_lock lock(mutex_);
    if (const std::string gone = departure(rank); !gone.empty()) {
      lock.unlock();
      work->fail(concat(contribution.describe(), " #", sequence, " of thread ranks: ", gone));
      return work;
    }
    Collective& op = collectives_[sequence];
    if (op.works.empty()) {
      op.parts.resize(static_cast<size_t>(world_size_));
      op.works.resize(static_cast<size_t>(world_size_));
      op.ready.resize(static_cast<size_t>(world_size_));
      op.timeout = timeout;
      op.deadline = Clock::now() + timeout;
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
      for (const tensor::StreamMark& mark : whole.ready) mark.wait_on_current();
      run_collective(whole.parts);
    } catch (...) {
      for (const auto& each : whole.works) each->fail(std::current_exception());
      return work;
    }
    for (const auto& each : whole.works) each->complete();
  }
  return work;
}

PendingWorkPtr ThreadExchange::send(
    int from, int to, int tag, at::Tensor tensor, std::chrono::milliseconds timeout) {
  auto work = c10::make_intrusive<PendingWork>(
      from, c10d::OpType::SEND, messages_++, std::vector<at::Tensor>{tensor});
  return meet({from, to, tag, true, std::move(tensor), work, timeout, Clock::now() + timeout});
}

PendingWorkPtr ThreadExchange::receive(
    int source, int to, int tag, at::Tensor tensor, std::chrono::milliseconds timeout) {
  const auto op = source < 0 ? c10d::OpType::RECVANYSOURCE : c10d::OpType::RECV;
  auto work =
      c10::make_intrusive<PendingWork>(to, op, messages_++, std::vector<at::Tensor>{tensor});
  return meet({source, to, tag, false, std::move(tensor), work, timeout, Clock::now() + timeout});
}

PendingWorkPtr ThreadExchange::meet(Pending mine) {
  std::unique_lock lock(mutex_);
  const auto match = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& other) {
    const Pending& sends = mine.sends ? mine : other;
    const Pending& takes = mine.sends ? other : mine;
    return mine.sends != other.sends && sends.to == takes.to && sends.tag == takes.tag &&
           (takes.from == sends.from || takes.from == -1);
  });
  PendingWorkPtr work = mine.work;
  if (match == pending_.end()) {
    const int awaited = mine.sends ? mine.to : mine.from;
    std::string gone = departure(mine.sends ? mine.from : mine.to);
    if (gone.empty()) gone = departure(awaited);  // -1, any, never leaves
    if (gone.empty()) {
      mine.ready = tensor::StreamMark::of_current(tensor::stream_devices({mine.tensor}));
      pending_.push_back(std::move(mine));
      changed_.notify_all();
      return work;
    }
    lock.unlock();
    work->fail(mine.sends
                   ? concat("send from rank ", mine.from, " to rank ", mine.to, ": ", gone)
                   : concat("receive of rank ", mine.to, " from rank ", mine.from, ": ", gone));
    return work;
  }
  const Pending other = std::move(*match);
  pending_.erase(match);
  lock.unlock();
  const Pending& sender = mine.sends ? mine : other;
  const Pending& receiver = mine.sends ? other : mine;
  const auto fail_both = [&](const std::exception_ptr& error) {
    receiver.work->fail(error);
    sender.work->fail(error);
    return work;
  };
  try {
    other.ready.wait_on_current();
    deliver(sender, receiver);
  } catch (const c10::Error& error) {
    return fail_both(std::make_exception_ptr(
        usage_error({.refused = concat("message of rank ", sender.from, " to rank ", receiver.to),
                     .rule = error.what_without_backtrace()})));
  } catch (...) {  // nobody else knows of the two any more
    return fail_both(std::current_exception());
  }
  receiver.work->set_source(sender.from);
  receiver.work->complete();
  sender.work->complete();
  return work;
}

void ThreadExchange::deliver(const Pending& sender, const Pending& receiver) {
  const auto text = [](const at::Tensor& tensor) {
    return shape_text(tensor.scalar_type(), tensor.sizes());
  };
  if (sender.tensor.scalar_type() != receiver.tensor.scalar_type() ||
      sender.tensor.numel() != receiver.tensor.numel()) {
    throw usage_error(
        {.refused = concat("message of rank ", sender.from, " to rank ", receiver.to),
         .rule = "a message is received into a tensor of its dtype and size",
         .value = concat(
             "rank ", sender.from, " sent ", text(sender.tensor), " for ", text(receiver.tensor))});
  }
  const c10::NoGradGuard no_grad;
  at::Tensor(receiver.tensor).copy_(sender.tensor.reshape(receiver.tensor.sizes()));
}

void ThreadExchange::leave(int rank, const std::string& why, bool withdraw) {
  std::vector<std::pair<PendingWorkPtr, std::string>> failed;
  {
    const std::lock_guard lock(mutex_);
    left_.emplace(rank, why);
    for (auto op = collectives_.begin(); op != collectives_.end();) {
      if (op->second.works[rank] && !withdraw) {
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
      const int here = message.sends ? message.from : message.to;
      const int other = message.sends ? message.to : message.from;
      if (other != rank && !(withdraw && here == rank)) return false;
      const std::string whom = other < 0 ? "any rank" : concat("rank ", other);
      failed.emplace_back(
          message.work,
          concat(message.sends ? "send to " : "receive from ", whom, ": ", departure(rank)));
      return true;
    });
  }
  for (const auto& [work, text] : failed) work->fail(text);
}

void ThreadExchange::run_watchdog() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    const auto now = Clock::now();
    auto next = Clock::time_point::max();
    std::vector<std::pair<PendingWorkPtr, std::string>> late;
    for (auto op = collectives_.begin(); op != collectives_.end();) {
      if (op->second.deadline > now) {
        next = std::min(next, op->second.deadline);
        ++op;
        continue;
      }
      const std::string text = missing_text(
          op->first, op->second, concat("timed out after ", op->second.timeout.count(), " ms"));
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
                                 message.timeout.count(),
                                 " ms"));
      }
      return is_late;
    });
    if (!late.empty()) {
      const auto gone = gone_;
      lock.unlock();
      for (const auto& [work, text] : late) work->fail(text);
      if (*gone) return;
      lock.lock();
      continue;
    }
    // A fixed far point instead of max(): adding to it inside wait_until would overflow.
    changed_.wait_until(lock, std::min(next, now + std::chrono::hours(1)));
  }
}

}  // namespace muster::distributed
