// Layers: convolutions, normalisations, pools, embeddings, attention.
#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>
#include <c10/util/Exception.h>

#include "muster/memory/estimate/cpu_scratch.h"
#include "muster/memory/estimate/meta_kernels.h"
#include "muster/memory/estimate/meta_library.h"

namespace muster::memory {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Mask = std::array<bool, 3>;
using Sizes = std::vector<int64_t>;
using Steps = c10::SymIntArrayRef;

Tensor plain(at::IntArrayRef sizes, const Tensor& like) { return at::empty(sizes, like.options()); }

/// In the layout of an image's.
Tensor image(at::IntArrayRef sizes, const Tensor& like) {
  return at::empty(sizes, like.options(), like.suggest_memory_format());
}

Tensor contiguous_like(const Tensor& tensor) {
  return at::empty_like(tensor, tensor.suggest_memory_format());
}

int64_t at_dim(Steps values, size_t dim) {
  return values[values.size() == 1 ? 0 : dim].guard_int(__FILE__, __LINE__);
}

int64_t largest(Steps values) {
  int64_t most = 1;
  for (size_t dim = 0; dim < values.size(); ++dim) most = std::max(most, at_dim(values, dim));
  return most;
}

// [N, C, …] and [K, C / groups, …] -> [N, K, …]; transposed ones have [C, K / groups, …].
Tensor convolution(const Tensor& input,
                   const Tensor& weight,
                   const MaybeTensor& /*bias*/,
                   Steps stride,
                   Steps padding,
                   Steps dilation,
                   bool transposed,
                   Steps output_padding,
                   c10::SymInt groups) {
  const auto spatial = static_cast<size_t>(weight.dim()) - 2;
  const size_t first = static_cast<size_t>(input.dim()) - spatial;
  Sizes sizes(input.sizes().begin(), input.sizes().end());
  sizes[first - 1] =
      transposed ? weight.size(1) * groups.guard_int(__FILE__, __LINE__) : weight.size(0);
  for (size_t dim = 0; dim < spatial; ++dim) {
    const int64_t reach = at_dim(dilation, dim) * (weight.size(static_cast<int64_t>(dim) + 2) - 1);
    const int64_t step = at_dim(stride, dim), padded = 2 * at_dim(padding, dim);
    TORCH_CHECK(step > 0, "a stride is above 0, not ", step);
    int64_t& size = sizes[first + dim];
    size = transposed ? (size - 1) * step - padded + reach + at_dim(output_padding, dim) + 1
                      : (size + padded - reach - 1) / step + 1;
  }
  const bool is_empty = input.numel() == 0 || weight.numel() == 0;  // then there is no scratch
  if (transposed || is_empty || !CpuScratch::wanted()) return image(sizes, input);
  return with_forward_scratch(
      {input, weight, sizes, groups.guard_int(__FILE__, __LINE__), largest(stride)});
}

Three convolution_backward(const Tensor& grad,
                           const Tensor& input,
                           const Tensor& weight,
                           at::OptionalSymIntArrayRef /*bias_sizes*/,
                           Steps stride,
                           Steps,
                           Steps,
                           bool transposed,
                           Steps,
                           c10::SymInt groups,
                           Mask mask) {
  const bool is_empty = input.numel() == 0 || weight.numel() == 0;
  if (!transposed && !is_empty && CpuScratch::wanted()) {
    auto gradients = with_backward_scratch(
        {input, weight, grad.sizes(), groups.guard_int(__FILE__, __LINE__), largest(stride)}, mask);
    return {std::move(gradients[0]), std::move(gradients[1]), std::move(gradients[2])};
  }
  const int64_t outputs =
      transposed ? weight.size(1) * groups.guard_int(__FILE__, __LINE__) : weight.size(0);
  return {mask[0] ? image(input.sizes(), input) : Tensor(),
          mask[1] ? contiguous_like(weight) : Tensor(),
          mask[2] ? plain({outputs}, grad) : Tensor()};
}

/// Of statistics: float32 for 16-bit numbers.
at::TensorOptions wide(const Tensor& tensor) {
  const bool is_short = tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
  return is_short ? tensor.options().dtype(at::kFloat) : tensor.options();
}

Three native_batch_norm(const Tensor& input,
                        const MaybeTensor&,
                        const MaybeTensor&,
                        const MaybeTensor&,
                        const MaybeTensor&,
                        bool training,
                        double,
                        double) {
  const int64_t statistics = training ? input.size(1) : 0;
  return {contiguous_like(input),
          at::empty({statistics}, wide(input)),
          at::empty({statistics}, wide(input))};
}

Three native_batch_norm_backward(const Tensor& grad,
                                 const Tensor& input,
                                 const MaybeTensor& weight,
                                 const MaybeTensor&,
                                 const MaybeTensor&,
                                 const MaybeTensor&,
                                 const MaybeTensor&,
                                 bool,
                                 double,
                                 Mask mask) {
  const Tensor& like = weight && weight->defined() ? *weight : grad;
  return {mask[0] ? contiguous_like(input) : Tensor(),
          mask[1] ? plain({input.size(1)}, like) : Tensor(),
          mask[2] ? plain({input.size(1)}, like) : Tensor()};
}

Three native_layer_norm(
    const Tensor& input, Steps normalized, const MaybeTensor&, const MaybeTensor&, double) {
  Sizes sizes(input.sizes().begin(), input.sizes().end());
  std::fill(sizes.end() - static_cast<std::ptrdiff_t>(normalized.size()), sizes.end(), 1);
  return {
      plain(input.sizes(), input), at::empty(sizes, wide(input)), at::empty(sizes, wide(input))};
}

Three native_layer_norm_backward(const Tensor& /*grad*/,
                                 const Tensor& input,
                                 Steps,
                                 const Tensor&,
                                 const Tensor&,
                                 const MaybeTensor& weight,
                                 const MaybeTensor& bias,
                                 Mask mask) {
  const auto of = [](const MaybeTensor& tensor) {
    return tensor && tensor->defined() ? at::empty_like(*tensor) : Tensor();
  };
  return {mask[0] ? plain(input.sizes(), input) : Tensor(),
          mask[1] ? of(weight) : Tensor(),
          mask[2] ? of(bias) : Tensor()};
}

Three native_group_norm(const Tensor& input,
                        const MaybeTensor&,
                        const MaybeTensor&,
                        c10::SymInt samples,
                        c10::SymInt,
                        c10::SymInt,
                        int64_t groups,
                        double) {
  const int64_t rows = samples.guard_int(__FILE__, __LINE__);
  return {contiguous_like(input),
          at::empty({rows, groups}, wide(input)),
          at::empty({rows, groups}, wide(input))};
}

Three native_group_norm_backward(const Tensor& /*grad*/,
                                 const Tensor& input,
                                 const Tensor&,
                                 const Tensor&,
                                 const MaybeTensor& weight,
                                 c10::SymInt,
                                 c10::SymInt channels,
                                 c10::SymInt,
                                 int64_t,
                                 Mask mask) {
  const Tensor& like = weight && weight->defined() ? *weight : input;
  const int64_t wide_as = channels.guard_int(__FILE__, __LINE__);
  return {mask[0] ? contiguous_like(input) : Tensor(),
          mask[1] ? plain({wide_as}, like) : Tensor(),
          mask[2] ? plain({wide_as}, like) : Tensor()};
}

Tensor adaptive_avg_pool2d(const Tensor& input, Steps output) {
  Sizes sizes(input.sizes().begin(), input.sizes().end());
  for (size_t dim = 0; dim < 2; ++dim) sizes[sizes.size() - 2 + dim] = at_dim(output, dim);
  return image(sizes, input);
}

Tensor index_select(const Tensor& input, int64_t dim, const Tensor& index) {
  Sizes sizes(input.sizes().begin(), input.sizes().end());
  if (!sizes.empty()) sizes[static_cast<size_t>(dim < 0 ? dim + input.dim() : dim)] = index.numel();
  return plain(sizes, input);
}

Tensor embedding_dense_backward(
    const Tensor& grad, const Tensor& /*indices*/, c10::SymInt rows, c10::SymInt, bool) {
  return plain({rows.guard_int(__FILE__, __LINE__), grad.size(-1)}, grad);
}

Tensor where(const Tensor& condition, const Tensor& yes, const Tensor& no) {
  const auto sizes = at::infer_size_dimvector(condition.sizes(),
                                              at::infer_size_dimvector(yes.sizes(), no.sizes()));
  return at::empty(sizes, condition.options().dtype(at::result_type(yes, no)));
}

using Attention = std::tuple<Tensor, Tensor>;

Attention attention(const Tensor& query,
                    const Tensor& /*key*/,
                    const Tensor& value,
                    double,
                    bool,
                    const MaybeTensor&,
                    std::optional<double>) {
  // Both lie in memory as [N, T, heads, …] does.
  const int64_t rows = query.size(0), heads = query.size(1), tokens = query.size(2);
  return {at::empty({rows, tokens, heads, value.size(3)}, query.options()).transpose(1, 2),
          at::empty({rows, tokens, heads}, wide(query)).transpose(1, 2)};
}

Three attention_backward(const Tensor& /*grad*/,
                         const Tensor& query,
                         const Tensor& key,
                         const Tensor& value,
                         const Tensor&,
                         const Tensor&,
                         double,
                         bool,
                         const MaybeTensor&,
                         std::optional<double>) {
  const auto like = [](const Tensor& tensor) {
    return at::empty_like(tensor.transpose(1, 2), c10::MemoryFormat::Contiguous).transpose(1, 2);
  };
  return {like(query), like(key), like(value)};
}

/// at::scaled_dot_product_attention() by the kernels that the CPU would choose.
Tensor attention_of_choice(const Tensor& query,
                           const Tensor& key,
                           const Tensor& value,
                           const MaybeTensor& mask,
                           double dropout,
                           bool is_causal,
                           std::optional<double> scale,
                           bool enable_gqa) {
  const bool has_mask = mask && mask->defined();
  const bool is_fused = dropout == 0 && query.dim() == 4 && query.size(3) == value.size(3) &&
                        !enable_gqa && query.numel() > 0 && query.stride(3) == 1 &&
                        !(has_mask && mask->requires_grad());
  if (!is_fused) {
    return std::get<0>(at::_scaled_dot_product_attention_math(
        query, key, value, mask, dropout, is_causal, {}, scale, enable_gqa));
  }
  MaybeTensor added = mask;  // numbers instead of yes and no
  if (has_mask && mask->scalar_type() == at::kBool) added = plain(mask->sizes(), query);
  return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(
      query, key, value, dropout, is_causal, added, scale));
}

}  // namespace

void add_meta_layers(MetaLibrary& library) {
  library.add("convolution", &convolution);
  library.add("convolution_backward", &convolution_backward);
  library.add("native_batch_norm", &native_batch_norm);
  library.add("native_batch_norm_backward", &native_batch_norm_backward);
  library.add("native_layer_norm", &native_layer_norm);
  library.add("native_layer_norm_backward", &native_layer_norm_backward);
  library.add("native_group_norm", &native_group_norm);
  library.add("native_group_norm_backward", &native_group_norm_backward);
  library.add("_adaptive_avg_pool2d", &adaptive_avg_pool2d);
  library.add("index_select", &index_select);
  library.add("embedding_dense_backward", &embedding_dense_backward);
  library.add("where.self", &where);
  library.add("_scaled_dot_product_flash_attention_for_cpu", &attention);
  library.add("_scaled_dot_product_flash_attention_for_cpu_backward", &attention_backward);
  library.add_with_gradients("scaled_dot_product_attention", &attention_of_choice);
}

void add_meta_kernels() {
  [[maybe_unused]] static MetaLibrary* const library = [] {
    auto* const all = new MetaLibrary;  // for good
    add_meta_layers(*all);
    add_meta_shapes(*all);
    add_meta_recurrent(*all);
    return all;
  }();
}

}  // namespace muster::memory
