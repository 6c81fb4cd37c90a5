#include "muster/parallel/ddp/hook_adapter.h"

#include "muster/base/error.h"

namespace muster::parallel {
namespace {

class Adapter final : public c10d::CommHookInterface {
 public:
  explicit Adapter(std::shared_ptr<HookRun> run) : run_(std::move(run)) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    return run_->start(bucket);
  }
  at::Tensor parseHookResult(const c10::IValue& result) override {
    return run_->averaged_gradient(result);
  }

 private:
  std::shared_ptr<HookRun> run_;
};

}  // namespace

c10::intrusive_ptr<c10::ivalue::Future> HookRun::start(c10d::GradBucket& bucket) {
  // What a step that failed has left behind must not answer for this one.
  if (bucket.getIndex() == 0) started_.clear();
  started_.push_back(hook_->reduce(bucket));
  return started_.back().future();
}

at::Tensor HookRun::averaged_gradient(const c10::IValue& arrived) {
  if (started_.empty())
    throw internal_error({.refused = "a bucket ended that no communication hook had started"});
  const BucketReduction oldest = std::move(started_.front());
  started_.pop_front();
  const at::Tensor tensor = c10d::detail::parseCppCommHookResult(arrived);
  return oldest.epilogue() ? oldest.epilogue()(tensor) : tensor;
}

void HookRun::drain() {
  while (!started_.empty()) {
    const auto future = started_.front().future();
    future->waitAndThrow();
    averaged_gradient(future->value());
  }
}

std::unique_ptr<c10d::CommHookInterface> adapter_of(std::shared_ptr<HookRun> run) {
  return std::make_unique<Adapter>(std::move(run));
}

}  // namespace muster::parallel
