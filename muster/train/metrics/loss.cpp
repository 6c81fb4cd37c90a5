#include "muster/train/metrics/loss.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/huber_loss.h>
#include <ATen/ops/l1_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/smooth_l1_loss.h>
#include <ATen/ops/topk.h>

#include "muster/base/error.h"
#include "muster/base/params.h"
#include "muster/base/text.h"

namespace muster::train {

at::Tensor cross_entropy(const at::Tensor& scores,
                         const at::Tensor& target,
                         double label_smoothing) {
  if (!(label_smoothing >= 0 && label_smoothing <= 1)) {
    throw usage_error({.refused = "label smoothing",
                       .rule = "a share, from 0 to 1",
                       .value = shortest(label_smoothing)});
  }
  return at::cross_entropy_loss(
      scores, target, /*weight=*/{}, at::Reduction::Mean, /*ignore_index=*/-100, label_smoothing);
}

at::Tensor in_top_k(const at::Tensor& scores, const at::Tensor& target, int64_t k) {
  if (k < 1)
    throw usage_error(
        {.refused = "top-k accuracy", .rule = "k is at least 1", .value = std::to_string(k)});
  const at::Tensor best = std::get<1>(at::topk(scores, std::min(k, scores.size(1)), /*dim=*/1));
  return best.eq(target.unsqueeze(1)).sum();
}

int64_t count_in_top_k(const at::Tensor& scores, const at::Tensor& target, int64_t k) {
  return in_top_k(scores, target, k).item<int64_t>();
}

namespace {

struct SmoothL1Options {
  double beta = 1;
};
struct HuberOptions {
  double delta = 1;
};

constexpr Param kSmoothL1Params[] = {
    param<&SmoothL1Options::beta>("beta", "errors below it are squared")};
constexpr Param kHuberParams[] = {
    param<&HuberOptions::delta>("delta", "errors below it are squared")};

RegressionLoss checked_loss(RegressionLoss::Kind kind, double bend, const std::string& owner) {
  if (bend > 0 && std::isfinite(bend)) return {.kind = kind, .bend = bend};
  throw usage_error({.refused = owner,
                     .rule = "its parameter is above 0",
                     .value = shortest(bend),
                     .hint = kind == RegressionLoss::Kind::kSmoothL1
                                 ? "with beta=0 it would be l1"
                                 : "huber's loss at 0 is 0 everywhere"});
}

}  // namespace

RegressionLoss parse_regression_loss(std::string_view text, std::string_view flag) {
  using enum RegressionLoss::Kind;
  const Spec spec = parse_spec(text);
  const std::string owner = concat(flag, ' ', spec.name);
  if (spec.name == "mse" || spec.name == "l1") {
    check_param_names({}, spec.params, owner);
    return {.kind = spec.name == "mse" ? kMse : kL1};
  }
  if (spec.name == "smooth_l1") {
    const auto options = resolve_params<SmoothL1Options>(kSmoothL1Params, spec.params, owner);
    return checked_loss(kSmoothL1, options.beta, owner);
  }
  if (spec.name == "huber") {
    const auto options = resolve_params<HuberOptions>(kHuberParams, spec.params, owner);
    return checked_loss(kHuber, options.delta, owner);
  }
  const std::vector<std::string> known{"mse", "l1", "smooth_l1", "huber"};
  throw usage_error({.refused = std::string(flag),
                     .rule = concat("of a regression: ", join(known, ", ")),
                     .value = spec.name,
                     .hint = suggestion(spec.name, known)});
}

at::Tensor regression_loss(const at::Tensor& predicted,
                           const at::Tensor& target,
                           const RegressionLoss& loss) {
  switch (loss.kind) {
    case RegressionLoss::Kind::kMse:
      return at::mse_loss(predicted, target);
    case RegressionLoss::Kind::kL1:
      return at::l1_loss(predicted, target);
    case RegressionLoss::Kind::kSmoothL1:
      return at::smooth_l1_loss(predicted, target, at::Reduction::Mean, loss.bend);
    case RegressionLoss::Kind::kHuber:
      return at::huber_loss(predicted, target, at::Reduction::Mean, loss.bend);
  }
  return {};
}

}  // namespace muster::train
