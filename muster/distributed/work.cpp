#include "muster/distributed/work.h"

#include <utility>

namespace muster::distributed {

struct Work::Call {
  c10::intrusive_ptr<c10d::Work> work;  // null where nothing is left to wait for
  at::Tensor result;
  std::function<void(at::Tensor&)> epilogue;
};

Work::Work(c10::intrusive_ptr<c10d::Work> work,
           at::Tensor result,
           std::function<void(at::Tensor&)> epilogue)
    : call_(std::make_shared<Call>(Call{std::move(work), std::move(result), std::move(epilogue)})) {
}

bool Work::is_completed() const { return !call_ || !call_->work || call_->work->isCompleted(); }

int Work::source() const {
  if (!call_ || !call_->work) return -1;
  const auto op = call_->work->retrieveOpType();
  const bool receives = op == c10d::OpType::RECV || op == c10d::OpType::RECVANYSOURCE;
  return receives ? call_->work->sourceRank() : -1;
}

at::Tensor Work::wait() const {
  if (!call_) return {};
  if (call_->work) call_->work->wait();
  if (const auto epilogue = std::exchange(call_->epilogue, {})) epilogue(call_->result);
  return call_->result;
}

}  // namespace muster::distributed
