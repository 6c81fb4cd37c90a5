#include "muster/parallel/hook/comm_hook.h"

#include <utility>

#include "muster/base/error.h"

namespace muster::parallel {
namespace {

class FunctionHook final : public CommHook {
 public:
  explicit FunctionHook(CommHookFunction function) : function_(std::move(function)) {}
  BucketReduction reduce(c10d::GradBucket& bucket) override { return function_(bucket); }

 private:
  CommHookFunction function_;
};

}  // namespace

BucketReduction::BucketReduction(const c10::intrusive_ptr<c10d::Work>& work, Epilogue epilogue)
    : BucketReduction(work->getFuture(), std::move(epilogue)) {}

BucketReduction::BucketReduction(c10::intrusive_ptr<c10::ivalue::Future> future, Epilogue epilogue)
    : future_(std::move(future)), epilogue_(std::move(epilogue)) {}

void CommHook::load_state(const NamedTensors& state) {
  if (state.empty()) return;
  throw usage_error({.refused = "state of the communication hook",
                     .rule = "this hook has none",
                     .value = state[0].first,
                     .hint = "resume with the hook that the checkpoint was made with"});
}

at::Tensor CommHook::before_scatter(const at::Tensor& /*gradients*/) {
  throw internal_error({.refused = "a communication hook that scatters nothing"});
}

at::Tensor CommHook::after_scatter(const at::Tensor& /*sum*/, at::ScalarType /*dtype*/) {
  throw internal_error({.refused = "a communication hook that scatters nothing"});
}

std::shared_ptr<CommHook> make_comm_hook(CommHookFunction function) {
  return std::make_shared<FunctionHook>(std::move(function));
}

bool has_comm_hook(const std::string& spec) {
  return !comm_hooks().at(parse_spec(spec).name).is_plain;
}

std::shared_ptr<CommHook> make_comm_hook(const std::string& spec,
                                         const distributed::ProcessGroup& group) {
  const Spec parsed = parse_spec(spec);
  return comm_hooks().at(parsed.name).make(group, parsed.params);
}

}  // namespace muster::parallel
