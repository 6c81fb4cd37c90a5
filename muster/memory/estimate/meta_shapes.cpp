// Those whose results have the shape of an argument, or of one number.
#include <cstddef>

#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>

#include "muster/memory/estimate/meta_library.h"

namespace muster::memory {
namespace {

using at::Tensor;
using Stack = torch::jit::Stack;

const c10::IValue& argument(const c10::OperatorHandle& op, const Stack& stack, size_t index) {
  return stack[stack.size() - op.schema().arguments().size() + index];
}

void answer(const c10::OperatorHandle& op, Stack& stack, Tensor result) {
  torch::jit::drop(stack, op.schema().arguments().size());
  torch::jit::push(stack, std::move(result));
}

template <size_t Index>
void as_argument(const c10::OperatorHandle& op, Stack* stack) {
  const Tensor& like = argument(op, *stack, Index).toTensor();
  answer(op, *stack, at::empty_like(like, like.suggest_memory_format()));
}

/// Of two, that are broadcast.
void as_both(const c10::OperatorHandle& op, Stack* stack) {
  const Tensor& one = argument(op, *stack, 0).toTensor();
  const Tensor& other = argument(op, *stack, 1).toTensor();
  answer(op,
         *stack,
         at::empty(at::infer_size_dimvector(one.sizes(), other.sizes()),
                   one.options().dtype(at::result_type(one, other))));
}

void one_number(const c10::OperatorHandle& op, Stack* stack) {
  answer(op, *stack, at::empty({}, argument(op, *stack, 0).toTensor().options()));
}

/// loss(input, target, …, reduction): a number for each element, or one.
template <size_t Reduction>
void as_loss(const c10::OperatorHandle& op, Stack* stack) {
  const Tensor& input = argument(op, *stack, 0).toTensor();
  const bool is_whole = argument(op, *stack, Reduction).toInt() == 0;
  answer(op, *stack, at::empty(is_whole ? input.sizes() : at::IntArrayRef(), input.options()));
}

void change_in_place(const c10::OperatorHandle& op, Stack* stack) {
  torch::jit::drop(*stack, op.schema().arguments().size());
}

/// The last argument is the result.
void fill_given(const c10::OperatorHandle& op, Stack* stack) {
  answer(op, *stack, argument(op, *stack, op.schema().arguments().size() - 1).toTensor());
}

void change_itself(const c10::OperatorHandle& op, Stack* stack) {
  answer(op, *stack, argument(op, *stack, 0).toTensor());
}

template <auto Kernel>
void add_all(MetaLibrary& library, std::initializer_list<const char*> names) {
  for (const char* const name : names)
    library.add_boxed(name, torch::CppFunction::makeFromBoxedFunction<Kernel>());
}

}  // namespace

void add_meta_shapes(MetaLibrary& library) {
  add_all<&as_argument<0>>(
      library,
      {"relu", "hardtanh", "hardswish", "flip", "roll", "logit", "_prelu_kernel", "_logcumsumexp"});
  add_all<&fill_given>(library, {"where.self_out"});
  add_all<&change_itself>(library, {"relu_", "hardtanh_", "hardswish_"});
  add_all<&as_argument<1>>(library,
                           {"hardtanh_backward",
                            "hardswish_backward",
                            "mse_loss_backward",
                            "binary_cross_entropy_backward",
                            "log_sigmoid_backward",
                            "glu_backward",
                            "reflection_pad2d_backward",
                            "replication_pad2d_backward",
                            "_adaptive_avg_pool2d_backward"});
  add_all<&as_both>(library, {"rsub.Tensor", "floor_divide", "remainder.Scalar_Tensor"});
  add_all<&one_number>(library, {"max", "min", "median", "dot"});
  add_all<&as_loss<2>>(library, {"huber_loss"});
  add_all<&as_loss<3>>(library, {"binary_cross_entropy"});
  // The fused optimizers.
  add_all<&change_in_place>(library,
                            {"_fused_sgd_", "_fused_adam_", "_fused_adamw_", "_fused_adagrad_"});
}

}  // namespace muster::memory
