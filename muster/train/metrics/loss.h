// The losses of classifiers and of regressions, and how many answers were right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

namespace muster::train {

/// Mean cross-entropy of `scores` // [N, classes] before softmax, for `target` // [N] int64. With
/// label smoothing e, the target distribution is 1 - e on the target plus e / classes on every
/// class (Szegedy et al. 2016, section 7). Differentiable; equal to
/// torch.nn.functional.cross_entropy. Throws a usage error unless 0 <= label_smoothing <= 1.
at::Tensor cross_entropy(const at::Tensor& scores,
                         const at::Tensor& target,
                         double label_smoothing = 0);

/// Samples whose target is among the `k` highest scores // scores [N, classes], target [N] int64.
/// Which of several equal scores are among them is torch.topk's choice. With k of at least
/// `classes` that is every sample. Throws a usage error if k is below 1.
int64_t count_in_top_k(const at::Tensor& scores, const at::Tensor& target, int64_t k);
/// The same as a scalar // int64, where the scores are.
at::Tensor in_top_k(const at::Tensor& scores, const at::Tensor& target, int64_t k);

/// The loss of a regression, by PyTorch's name of it.
struct RegressionLoss {
  enum class Kind { kMse, kL1, kSmoothL1, kHuber };

  Kind kind = Kind::kMse;
  double bend = 1;  ///< smooth_l1's beta, huber's delta: where squares become straight lines
};

/// "mse", "l1", "smooth_l1:beta=1" or "huber:delta=1". `flag` is for errors. Throws a usage error for
/// another name or parameter, and for a bend that is not above 0.
RegressionLoss parse_regression_loss(std::string_view text, std::string_view flag);

/// The mean over the samples, a scalar // both [N], of one dtype. Differentiable; equal to
/// torch.nn.functional's mse_loss, l1_loss, smooth_l1_loss and huber_loss.
at::Tensor regression_loss(const at::Tensor& predicted,
                           const at::Tensor& target,
                           const RegressionLoss& loss);

}  // namespace muster::train
