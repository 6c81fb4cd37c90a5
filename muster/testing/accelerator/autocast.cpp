#include "muster/testing/accelerator/autocast.h"

#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "muster/testing/accelerator/machine.h"

namespace at::autocast {  // of ATen/autocast_mode.h, which includes every operator
TORCH_API Tensor cached_cast(ScalarType to_type, const Tensor& arg, DeviceType device_type);
TORCH_API ScalarType get_autocast_dtype(DeviceType device_type);
}  // namespace at::autocast

namespace muster::testing {
namespace {

/// PyTorch's policies. Source: "Autocast Op Reference" of its documentation.
enum class Cast {
  kLower,        // to the type that autocast was asked for
  kFloat,        // to float32
  kFloatOutput,  // to float32, unless the caller names a type
  kWidest,       // to the widest type among the arguments
};

template <class Change>
void change_arguments(const c10::OperatorHandle& op,
                      torch::jit::Stack& stack,
                      const Change& change) {
  const size_t first = stack.size() - op.schema().arguments().size();
  for (size_t i = first; i < stack.size(); ++i) {
    if (stack[i].isTensor()) {
      stack[i] = change(stack[i].toTensor());
    } else if (stack[i].isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : stack[i].toTensorVector()) list.push_back(change(tensor));
      stack[i] = std::move(list);
    }
  }
}

bool names_a_type(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  const size_t first = stack.size() - arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].name() == "dtype" && !stack[first + i].isNone()) return true;
  return false;
}

template <Cast Policy>
void run_cast(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard once(c10::DispatchKey::AutocastPrivateUse1);
  at::ScalarType to = at::kFloat;
  if (Policy == Cast::kLower || Policy == Cast::kWidest)
    to = at::autocast::get_autocast_dtype(kFake);
  if (Policy == Cast::kWidest) {
    change_arguments(op, *stack, [&](const at::Tensor& tensor) {
      if (tensor.defined() && tensor.scalar_type() == at::kFloat) to = at::kFloat;
      return tensor;
    });
  }
  if (Policy != Cast::kFloatOutput || !names_a_type(op, *stack)) {
    change_arguments(op, *stack, [&](const at::Tensor& tensor) {
      return tensor.defined() ? at::autocast::cached_cast(to, tensor, kFake) : tensor;
    });
  }
  op.callBoxed(stack);
}

template <Cast Policy>
void add_casts(torch::Library& casts, const std::vector<const char*>& ops) {
  for (const char* const op : ops)
    casts.impl(op, torch::CppFunction::makeFromBoxedFunction<&run_cast<Policy>>());
}

}  // namespace

void add_autocast(torch::Library& casts) {
  add_casts<Cast::kLower>(casts,
                          {"_convolution",
                           "conv1d",
                           "conv2d",
                           "conv3d",
                           "conv_transpose1d",
                           "conv_transpose2d.input",
                           "conv_transpose3d.input",
                           "convolution",
                           "conv_tbc",
                           "prelu",
                           "addmm",
                           "addmv",
                           "addr",
                           "matmul",
                           "einsum",
                           "mm",
                           "mv",
                           "linalg_vecdot",
                           "linear",
                           "addbmm",
                           "baddbmm",
                           "bmm",
                           "chain_matmul",
                           "linalg_multi_dot",
                           "lstm_cell",
                           "gru_cell",
                           "_thnn_fused_lstm_cell",
                           "_thnn_fused_gru_cell",
                           "rnn_tanh_cell",
                           "rnn_relu_cell",
                           "scaled_dot_product_attention"});
  add_casts<Cast::kFloat>(casts,
                          {"acos",
                           "asin",
                           "cosh",
                           "erfinv",
                           "exp",
                           "expm1",
                           "log",
                           "log10",
                           "log2",
                           "log1p",
                           "reciprocal",
                           "rsqrt",
                           "sinh",
                           "tan",
                           "pow.Tensor_Scalar",
                           "pow.Tensor_Tensor",
                           "pow.Scalar",
                           "softplus",
                           "layer_norm",
                           "native_layer_norm",
                           "group_norm",
                           "nll_loss",
                           "nll_loss2d",
                           "kl_div",
                           "l1_loss",
                           "smooth_l1_loss",
                           "huber_loss",
                           "mse_loss",
                           "soft_margin_loss",
                           "triplet_margin_loss",
                           "cosine_embedding_loss",
                           "hinge_embedding_loss",
                           "margin_ranking_loss",
                           "multilabel_margin_loss",
                           "multi_margin_loss",
                           "poisson_nll_loss",
                           "cosine_similarity",
                           "pdist",
                           "cdist",
                           "renorm",
                           "logsumexp",
                           "binary_cross_entropy_with_logits"});
  add_casts<Cast::kFloatOutput>(casts,
                                {"prod",
                                 "prod.dim_int",
                                 "softmax.int",
                                 "log_softmax.int",
                                 "cumprod",
                                 "cumsum",
                                 "sum",
                                 "sum.dim_IntList"});
  add_casts<Cast::kWidest>(casts,
                           {"addcdiv",
                            "addcmul",
                            "atan2",
                            "bilinear",
                            "cross",
                            "dot",
                            "vdot",
                            "grid_sampler",
                            "index_put",
                            "tensordot",
                            "scatter_add"});
}

}  // namespace muster::testing
