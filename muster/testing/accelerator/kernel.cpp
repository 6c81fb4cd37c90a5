#include "muster/testing/accelerator/kernel.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>

#include "muster/base/error.h"
#include "muster/testing/accelerator/allocators.h"
#include "muster/testing/accelerator/generator.h"
#include "muster/testing/accelerator/kernel_call.h"
#include "muster/testing/accelerator/machine.h"

namespace muster::testing {
namespace {

using Names = std::unordered_set<std::string>;
using TensorUses = std::vector<Machine::TensorUse>;

/// Where CUDA, too, takes tensors of the CPU beside the device's.
bool takes_cpu_tensors(const std::string& op) {
  static const Names names = {"aten::index",
                              "aten::index_put",
                              "aten::index_put_",
                              "aten::_index_put_impl_",
                              "aten::_unsafe_index",
                              "aten::_unsafe_index_put",
                              "aten::set_",
                              "aten::_pack_padded_sequence",
                              "aten::tensor_split",
                              "aten::histogramdd"};
  return names.contains(op);
}

/// The size of the result depends on numbers on the device, so the host waits for them.
bool host_needs_result(const std::string& op) {
  static const Names names = {"aten::nonzero",
                              "aten::masked_select",
                              "aten::unique_dim",
                              "aten::unique_consecutive",
                              "aten::unique_dim_consecutive",
                              "aten::_unique",
                              "aten::_unique2",
                              "aten::bincount",
                              "aten::repeat_interleave"};
  return names.contains(op);
}

/// It changes what a tensor says of its memory, and no byte of it.
bool touches_no_memory(const c10::FunctionSchema& schema) {
  static const Names names = {"aten::set_",
                              "aten::resize_",
                              "aten::resize_as_",
                              "aten::as_strided_",
                              "aten::t_",
                              "aten::transpose_",
                              "aten::squeeze_",
                              "aten::unsqueeze_",
                              "aten::swapaxes_",
                              "aten::swapdims_",
                              "aten::detach_"};
  if (names.contains(schema.name())) return true;
  for (const c10::Argument& result : schema.returns())
    if (result.alias_info() == nullptr || result.alias_info()->isWrite()) return false;
  return !schema.returns().empty();  // views of arguments
}

bool is_mask(const at::Tensor& tensor) {
  return tensor.defined() &&
         (tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte);
}

/// The host is told a number, or how much there is of something.
bool host_waits_for(const c10::FunctionSchema& schema, const TensorUses& uses) {
  if (uses.empty()) return false;
  for (const c10::Argument& result : schema.returns()) {
    const c10::TypeKind kind = result.type()->kind();
    if (kind != c10::TypeKind::TensorType && kind != c10::TypeKind::ListType) return true;
  }
  if (schema.name() == "aten::index" || schema.name() == "aten::_unsafe_index") {
    for (size_t i = 1; i < uses.size(); ++i)
      if (is_mask(uses[i].tensor)) return true;
  }
  return host_needs_result(schema.name());
}

template <class Visit>
void each_tensor(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const auto& tensor : value.toOptionalTensorVector())
      if (tensor) visit(*tensor);
  }
}

/// Tensors, lists of them and lists of optional ones.
template <class Change>
void change_tensors(c10::IValue& value, const Change& change) {
  if (value.isTensor()) {
    value = change(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(change(tensor));
    value = std::move(list);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const auto& tensor : value.toOptionalTensorVector())
      list.push_back(tensor ? std::optional(change(*tensor)) : std::nullopt);
    value = std::move(list);
  }
}

/// One run of a kernel: the arguments on the stack become the CPU's, the results the device's.
class KernelRun {
 public:
  KernelRun(const c10::OperatorHandle& op, torch::jit::Stack& stack)
      : op_(op), schema_(op.schema()), stack_(stack), call_(schema_.name()) {}

  void run() {
    find_device();
    Machine& machine = Machine::get();
    machine.announce(schema_.name(), call_.device());
    const bool watched = machine.watched() && !touches_no_memory(schema_);
    const TensorUses uses = watched ? device_tensors() : TensorUses();
    std::optional<Machine::Queued> queued;
    if (watched) queued = machine.queue(schema_.name(), call_.device(), uses);
    convert_arguments();
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      const InKernel kernel(call_.results_on_cpu() ? -1 : call_.device());
      op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
    }
    call_.hand_on_changes();
    convert_results();
    if (!queued) return;
    for (const at::Tensor& tensor : call_.made()) machine.made(*queued, tensor);
    if (call_.results_on_cpu() || host_waits_for(schema_, uses)) machine.host_waits(*queued);
  }

 private:
  c10::IValue& argument(size_t i) { return stack_[stack_.size() - schema_.arguments().size() + i]; }

  void find_device() {
    const bool cpu_allowed = takes_cpu_tensors(schema_.name());
    std::optional<c10::Device> named;
    for (size_t i = 0; i < schema_.arguments().size(); ++i) {
      const c10::IValue& value = argument(i);
      each_tensor(value, [&](const at::Tensor& t) { call_.check_device(t, cpu_allowed); });
      if (value.isDevice()) named = value.toDevice();
    }
    if (named && named->type() == kFake)
      call_.set_device(named->has_index() ? named->index() : current_device());
    if (named && named->is_cpu()) call_.leave_results_on_cpu();
    if (call_.device() < 0) call_.set_device(current_device());
  }

  /// The one schema that keeps quiet about a write: batch normalisation in training.
  bool updates_statistics() {
    if (schema_.name() != "aten::native_batch_norm") return false;
    const auto training = schema_.argumentIndexWithName("training");
    return training && argument(static_cast<size_t>(*training)).toBool();
  }

  TensorUses device_tensors() {
    TensorUses uses;
    const bool statistics = updates_statistics();
    for (size_t i = 0; i < schema_.arguments().size(); ++i) {
      const c10::Argument& formal = schema_.arguments()[i];
      const bool written = formal.alias_info() != nullptr && formal.alias_info()->isWrite();
      const bool write = written || (statistics && formal.name().starts_with("running_"));
      each_tensor(argument(i), [&](const at::Tensor& tensor) { add_use(uses, tensor, write); });
    }
    return uses;
  }

  /// A tensor that is read and written, x.mul_(2), is one use.
  static void add_use(TensorUses& uses, const at::Tensor& tensor, bool write) {
    if (!tensor.defined() || !tensor.is_privateuseone()) return;
    const auto known = std::find_if(
        uses.begin(), uses.end(), [&](const auto& use) { return use.tensor.is_same(tensor); });
    if (known == uses.end())
      uses.push_back({tensor, write});
    else
      known->write = known->write || write;
  }

  void convert_arguments() {
    for (size_t i = 0; i < schema_.arguments().size(); ++i) {
      c10::IValue& value = argument(i);
      change_tensors(value, [&](const at::Tensor& tensor) { return call_.on_cpu(tensor); });
      if (value.isDevice()) {
        value = c10::Device(c10::kCPU);
      } else if (value.isStorage()) {
        const c10::Storage storage = value.toStorage();
        if (storage.device_type() == kFake) value = call_.on_cpu(storage);
      } else if (value.isGenerator()) {
        if (const auto cpu = cpu_generator_of(value.toGenerator())) value = *cpu;
      } else if (value.isNone() && schema_.arguments()[i].name() == "generator") {
        value = *cpu_generator_of(Machine::get().device(call_.device()).generator);
      }
    }
  }

  void convert_results() {
    for (size_t i = stack_.size() - schema_.returns().size(); i < stack_.size(); ++i)
      change_tensors(stack_[i], [&](const at::Tensor& result) { return call_.on_device(result); });
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  torch::jit::Stack& stack_;
  KernelCall call_;
};

}  // namespace

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  KernelRun(op, *stack).run();
}

}  // namespace muster::testing
