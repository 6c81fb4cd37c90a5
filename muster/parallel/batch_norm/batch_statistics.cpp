#include "muster/parallel/batch_norm/batch_statistics.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/ivalue.h>
#include <ATen/ops/batch_norm_backward_elemt.h>
#include <ATen/ops/batch_norm_backward_reduce.h>
#include <ATen/ops/batch_norm_elemt.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// All dimensions but the channels'.
std::vector<int64_t> other_dimensions(const at::Tensor& input) {
  std::vector<int64_t> dimensions{0};
  for (int64_t i = 2; i < input.dim(); ++i) dimensions.push_back(i);
  return dimensions;
}

/// [C] as [1, C, 1, …].
at::Tensor spread(const at::Tensor& channels, const at::Tensor& input) {
  std::vector<int64_t> sizes(static_cast<size_t>(input.dim()), 1);
  sizes[1] = channels.numel();
  return channels.reshape(sizes);
}

at::ScalarType statistics_type(const at::Tensor& input) {
  const bool half = input.scalar_type() == at::kHalf || input.scalar_type() == at::kBFloat16;
  return half ? at::kFloat : input.scalar_type();
}

/// ATen's batch_norm_* kernels exist for CUDA alone; they take no empty input.
bool has_kernels(const at::Tensor& input) { return input.is_cuda() && input.numel() > 0; }

/// What backward knows besides input and weight. A custom class, because that is what an autograd
/// context can hold.
struct Normalization : torch::CustomClassHolder {
  Normalization(distributed::ProcessGroup group,
                BatchStatistics statistics,
                at::Tensor inverse_deviation,
                bool counts)
      : group(std::move(group)),
        statistics(std::move(statistics)),
        inverse_deviation(std::move(inverse_deviation)),
        counts(counts) {}

  distributed::ProcessGroup group;
  BatchStatistics statistics;
  at::Tensor inverse_deviation;  // [C]
  bool counts;                   // this rank's batch is in the statistics

  at::Tensor wide(const at::Tensor& tensor) const {
    return tensor.to(statistics.mean.scalar_type());
  }
  at::Tensor centred(const at::Tensor& input) const {
    return wide(input) - spread(statistics.mean, input);
  }
};

struct Sums {
  at::Tensor gradient;   ///< [C] sum of dy
  at::Tensor deviation;  ///< [C] sum of dy * (x - mean)
};

/// Of this rank's batch.
Sums local_sums(const Normalization& norm,
                const at::Tensor& input,
                const at::Tensor& weight,
                const at::Tensor& gradient) {
  if (has_kernels(input) && norm.counts) {
    const auto sums = at::batch_norm_backward_reduce(gradient.contiguous(),
                                                     input.contiguous(),
                                                     norm.statistics.mean,
                                                     norm.inverse_deviation,
                                                     weight,
                                                     /*input_g=*/true,
                                                     /*weight_g=*/false,
                                                     /*bias_g=*/false);
    return {std::get<0>(sums), std::get<1>(sums)};
  }
  const auto dimensions = other_dimensions(input);
  const at::Tensor wide = norm.wide(gradient);
  return {wide.sum(dimensions), (wide * norm.centred(input)).sum(dimensions)};
}

/// d loss / d input, from the sums over all ranks: (dy - mean(dy) - (x - mean) * mean(dy * (x -
/// mean)) / variance) * weight / deviation.
at::Tensor input_gradient(const Normalization& norm,
                          const at::Tensor& input,
                          const at::Tensor& weight,
                          const at::Tensor& gradient,
                          const Sums& sums) {
  if (!norm.counts) {  // the statistics do not depend on it
    at::Tensor scale = norm.inverse_deviation;
    if (weight.defined()) scale = scale * norm.wide(weight);
    return (norm.wide(gradient) * spread(scale, input)).to(input.scalar_type());
  }
  if (has_kernels(input)) {
    return at::batch_norm_backward_elemt(gradient.contiguous(),
                                         input.contiguous(),
                                         norm.statistics.mean,
                                         norm.inverse_deviation,
                                         weight.defined() ? norm.wide(weight) : weight,
                                         sums.gradient,
                                         sums.deviation,
                                         norm.statistics.counts.to(at::kInt));
  }
  const double count = norm.statistics.count;
  const at::Tensor slope = norm.inverse_deviation.square() * sums.deviation / count;
  at::Tensor scale = norm.inverse_deviation;
  if (weight.defined()) scale = scale * norm.wide(weight);
  const at::Tensor rest = norm.wide(gradient) - spread(sums.gradient / count, input) -
                          norm.centred(input) * spread(slope, input);
  return (rest * spread(scale, input)).to(input.scalar_type());
}

at::Tensor normalize(const Normalization& norm,
                     const at::Tensor& input,
                     const at::Tensor& weight,
                     const at::Tensor& bias) {
  if (has_kernels(input)) {
    return at::batch_norm_elemt(input.contiguous(),
                                weight,
                                bias,
                                norm.statistics.mean,
                                norm.inverse_deviation,
                                /*eps=*/0);  // is in inverse_deviation
  }
  at::Tensor scale = norm.inverse_deviation;
  if (weight.defined()) scale = scale * norm.wide(weight);
  at::Tensor out = norm.centred(input) * spread(scale, input);
  if (bias.defined()) out = out + spread(norm.wide(bias), input);
  return out.to(input.scalar_type());
}

struct NormalizeOverRanks : torch::autograd::Function<NormalizeOverRanks> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& input,
                            const std::optional<at::Tensor>& weight,
                            const std::optional<at::Tensor>& bias,
                            const c10::intrusive_ptr<Normalization>& norm) {
    context->save_for_backward({input, weight.value_or(at::Tensor())});
    context->saved_data["norm"] = c10::IValue::make_capsule(norm);
    return normalize(*norm, input, weight.value_or(at::Tensor()), bias.value_or(at::Tensor()));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (c10::GradMode::is_enabled()) {
      throw usage_error({.refused = "the derivative of SyncBatchNorm's backward",
                         .rule = "it crosses ranks and is not recorded",
                         .hint = "call backward without create_graph"});
    }
    const auto capsule = context->saved_data["norm"].toCapsule();
    const auto& norm = static_cast<const Normalization&>(*capsule);
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1], &gradient = gradients[0];
    const Sums own = local_sums(norm, input, weight, gradient);
    variable_list out(4);
    if (context->needs_input_grad(0)) {
      at::Tensor both = at::cat({own.gradient, own.deviation});
      if (!norm.counts) both = at::zeros_like(both);
      norm.group.all_reduce(both);
      const int64_t channels = own.gradient.numel();
      out[0] = input_gradient(norm,
                              input,
                              weight,
                              gradient,
                              {both.narrow(0, 0, channels), both.narrow(0, channels, channels)});
    }
    // This rank's share of the parameters' gradients: averaging them is DDP's part.
    if (weight.defined()) {
      out[1] = (own.deviation * norm.inverse_deviation).to(weight.scalar_type());
      out[2] = own.gradient.to(weight.scalar_type());
    }
    return out;
  }
};

}  // namespace

BatchStatistics gather_statistics(const at::Tensor& input,
                                  const distributed::ProcessGroup& group,
                                  bool counts) {
  const c10::NoGradGuard no_grad;
  const int64_t channels = input.size(1), own = counts ? input.numel() / channels : 0;
  const auto options = input.options().dtype(statistics_type(input));
  // count, means, sums of squares
  at::Tensor part = at::zeros({1 + 2 * channels}, options);
  if (own > 0) {
    const auto [variance, mean] = at::var_mean(input.to(options.dtype()),
                                               other_dimensions(input),
                                               /*correction=*/at::Scalar(0),
                                               /*keepdim=*/false);
    part = at::cat({at::full({1}, static_cast<double>(own), options), mean, variance * own});
  }
  const at::Tensor all = group.all_gather(part);  // [ranks, 1 + 2 C]
  const at::Tensor each = all.select(1, 0), means = all.narrow(1, 1, channels);
  BatchStatistics out{.counts = each.contiguous(), .count = each.sum().item<double>()};
  if (out.count == 0) return out;
  out.mean = (means * (each / out.count).unsqueeze(1)).sum(0);
  out.sum_squares =
      (all.narrow(1, 1 + channels, channels) + each.unsqueeze(1) * (means - out.mean).square())
          .sum(0);
  return out;
}

at::Tensor normalize_over_ranks(const at::Tensor& input,
                                const at::Tensor& weight,
                                const at::Tensor& bias,
                                const BatchStatistics& statistics,
                                double epsilon,
                                const distributed::ProcessGroup& group,
                                bool counts) {
  const at::Tensor inverse = (statistics.sum_squares / statistics.count + epsilon).rsqrt();
  // An undefined tensor is no argument of an autograd function; an empty optional is.
  const auto given = [](const at::Tensor& tensor) {
    return tensor.defined() ? std::optional(tensor) : std::nullopt;
  };
  return NormalizeOverRanks::apply(
      input,
      given(weight),
      given(bias),
      c10::make_intrusive<Normalization>(group, statistics, inverse, counts));
}

void refuse_count(int64_t values) {
  throw usage_error({.refused = "SyncBatchNorm in training",
                     .rule = "a channel has at least two values over all ranks",
                     .value = std::to_string(values)});
}

at::Tensor batch_norm_over_ranks(const at::Tensor& input,
                                 const BatchNormArguments& arguments,
                                 const distributed::ProcessGroup& group,
                                 bool counts) {
  const BatchStatistics statistics = gather_statistics(input, group, counts);
  if (statistics.count < 2) refuse_count(static_cast<int64_t>(statistics.count));
  if (arguments.running_mean.defined()) {
    const c10::NoGradGuard no_grad;
    const double kept = 1 - arguments.momentum;
    const at::Tensor unbiased = statistics.sum_squares / (statistics.count - 1);
    arguments.running_mean.mul_(kept).add_(statistics.mean, arguments.momentum);
    arguments.running_var.mul_(kept).add_(unbiased, arguments.momentum);
  }
  return normalize_over_ranks(
      input, arguments.weight, arguments.bias, statistics, arguments.epsilon, group, counts);
}

}  // namespace muster::parallel
