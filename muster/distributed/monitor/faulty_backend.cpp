#include "muster/distributed/monitor/faulty_backend.h"

#include <csignal>
#include <limits>
#include <thread>
#include <utility>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <c10/core/GradMode.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::distributed {
namespace {

using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

FuturePtr new_future() {
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
}

/// Says that it is done; nothing was.
class SkippedWork : public c10d::Work {
 public:
  SkippedWork(int rank, const OpCall& call)
      : c10d::Work(rank, call.type),
        outputs_(call.outputs.empty() ? call.inputs : call.outputs),
        peer_(call.root),
        future_(new_future()) {
    finish();
    future_->markCompleted(c10::IValue(outputs_));
  }
  bool wait(std::chrono::milliseconds) override { return true; }
  int sourceRank() const override { return peer_; }
  std::vector<at::Tensor> result() override { return outputs_; }
  FuturePtr getFuture() override { return future_; }

 private:
  std::vector<at::Tensor> outputs_;
  int peer_;
  FuturePtr future_;
};

/// A call that is made with the next one, or when somebody needs it.
class HeldWork : public c10d::Work {
 public:
  HeldWork(int rank, c10d::OpType type, std::function<c10::intrusive_ptr<c10d::Work>()> call)
      : c10d::Work(rank, type), call_(std::move(call)) {}

  c10d::Work& made() {
    const std::lock_guard lock(making_);
    if (!work_) work_ = std::exchange(call_, nullptr)();
    return *work_;
  }
  bool isCompleted() override { return made().isCompleted(); }
  bool isSuccess() const override { return const_cast<HeldWork*>(this)->made().isSuccess(); }
  std::exception_ptr exception() const override {
    return const_cast<HeldWork*>(this)->made().exception();
  }
  int sourceRank() const override { return const_cast<HeldWork*>(this)->made().sourceRank(); }
  bool wait(std::chrono::milliseconds timeout) override { return made().wait(timeout); }
  std::vector<at::Tensor> result() override { return made().result(); }
  /// For callers that wait by the future alone (c10d's Reducer): made once the call is.
  FuturePtr getFuture() override {
    {
      const std::lock_guard lock(making_);
      if (!work_) {
        if (!future_) future_ = new_future();
        return future_;
      }
    }
    return made().getFuture();
  }
  void release() {
    FuturePtr future;
    {
      const std::lock_guard lock(making_);
      future = future_;
    }
    if (!future) return void(made());
    made().getFuture()->addCallback([future](c10::ivalue::Future& done) {
      if (done.hasError())
        future->setError(done.exception_ptr());
      else
        future->markCompleted(done.value());
    });
  }

 private:
  std::mutex making_;
  std::function<c10::intrusive_ptr<c10d::Work>()> call_;
  c10::intrusive_ptr<c10d::Work> work_;
  FuturePtr future_;
};

void put_nan(const std::vector<at::Tensor>& tensors) {
  const c10::NoGradGuard no_grad;
  for (at::Tensor tensor : tensors) {
    if (tensor.defined() && at::isFloatingType(tensor.scalar_type()) && tensor.numel() > 0)
      tensor.detach().view(-1)[0].fill_(std::numeric_limits<double>::quiet_NaN());
  }
}

}  // namespace

RankFaults::RankFaults(diagnose::FaultPlan plan,
                       int rank,
                       bool is_thread,
                       std::shared_ptr<const diagnose::FlightRecorder> steps)
    : steps_(std::move(steps)) {
  for (diagnose::FaultRule& rule : plan) {
    const bool is_deadly =
        rule.action == diagnose::FaultAction::kKill || rule.action == diagnose::FaultAction::kStop;
    if (is_deadly && is_thread)
      throw usage_error(
          {.refused = concat("fault plan \"", fault_plan_text(diagnose::FaultPlan{rule}), "\""),
           .rule = "the ranks are threads of one process, which it would end as a whole",
           .hint = "use throw, or start processes with `muster run`"});
    if (!rule.rank || *rule.rank == rank) rules_.push_back({rule});
  }
}

bool RankFaults::strikes(Rule& rule, diagnose::OpKind kind) const {
  const diagnose::FaultRule& fault = rule.rule;
  if (fault.op ? *fault.op != kind : diagnose::is_point_to_point(kind)) return false;
  if (fault.step && (!steps_ || steps_->step() != *fault.step)) return false;
  ++rule.calls;
  return !fault.at || rule.calls == *fault.at;
}

std::vector<diagnose::FaultRule> RankFaults::strike(diagnose::OpKind kind) {
  std::vector<diagnose::FaultRule> struck;
  const std::lock_guard lock(mutex_);
  for (Rule& rule : rules_)
    if (strikes(rule, kind)) struck.push_back(rule.rule);
  return struck;
}

FaultyBackend::FaultyBackend(c10::intrusive_ptr<c10d::Backend> inner,
                             std::shared_ptr<RankFaults> faults)
    : DecoratedBackend(std::move(inner)), faults_(std::move(faults)) {}

FaultyBackend::~FaultyBackend() = default;

FaultyBackend::WorkPtr FaultyBackend::post_with_held(Posting& posting) {
  const auto held = std::exchange(held_, nullptr);
  WorkPtr work = posting.post();
  if (held) held();
  return work;
}

FaultyBackend::WorkPtr FaultyBackend::around(const OpCall& call, Posting& posting) {
  for (const diagnose::FaultRule& rule : faults_->strike(call.kind)) {
    switch (rule.action) {
      case diagnose::FaultAction::kKill:
        ::kill(::getpid(), SIGKILL);
        break;
      case diagnose::FaultAction::kStop:
        ::kill(::getpid(), SIGSTOP);
        break;
      case diagnose::FaultAction::kThrow:
        throw environment_error(
            {.refused = concat("rank ", getRank(), ", ", diagnose::op_name(call.kind)),
             .rule = concat("fault plan \"", fault_plan_text(diagnose::FaultPlan{rule}), "\"")});
      case diagnose::FaultAction::kDelay:
        std::this_thread::sleep_for(rule.delay);
        break;
      case diagnose::FaultAction::kSkip:
        return c10::make_intrusive<SkippedWork>(getRank(), call);
      case diagnose::FaultAction::kReorder: {
        auto work = c10::make_intrusive<HeldWork>(getRank(), call.type, posting.later());
        if (held_) std::exchange(held_, nullptr)();
        held_ = [work] { work->release(); };
        return work;
      }
      case diagnose::FaultAction::kNan:
        put_nan(call.inputs);
        break;
    }
  }
  return post_with_held(posting);
}

}  // namespace muster::distributed
