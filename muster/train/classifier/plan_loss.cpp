#include "muster/train/classifier/plan_loss.h"

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/train/metrics/loss.h"

namespace muster::train {
namespace {

constexpr const char* kCrossEntropy = "cross_entropy";

}  // namespace

void resolve_loss(TrainPlan& plan) {
  TrainOptions& options = plan.options;
  const bool is_regression = plan.target_scale.has_value();
  if (options.monitor == "auto")
    options.monitor = is_regression ? "validate_loss" : "validate_accuracy";
  if (options.loss == "auto") options.loss = is_regression ? "mse" : kCrossEntropy;
  const std::string data = concat("--data ", options.data);
  if (!is_regression) {
    if (options.loss == kCrossEntropy) return;
    throw usage_error({.refused = concat("--loss ", options.loss),
                       .rule = concat("classes are told apart by ", kCrossEntropy),
                       .value = data,
                       .hint = "of rows whose target is measured: csv:FILE,target=COLUMN,"
                               "target_kind=number"});
  }
  if (options.loss == kCrossEntropy) {
    throw usage_error({.refused = concat("--loss ", options.loss),
                       .rule = "the target is a number, and there are no classes",
                       .value = data,
                       .hint = "mse, l1, smooth_l1 or huber; without target_kind=number the "
                               "target's values are classes"});
  }
  parse_regression_loss(options.loss, "--loss");
  const char* of_classes = options.label_smoothing > 0 ? "--label-smoothing"
                           : options.top_k > 0         ? "--top-k"
                                                       : nullptr;
  if (of_classes == nullptr) return;
  throw usage_error({.refused = of_classes,
                     .rule = "it is of classes, and the target is a number",
                     .value = data,
                     .hint = "leave it away"});
}

std::string loss_text(const TrainPlan& plan) {
  const TrainOptions& options = plan.options;
  if (plan.target_scale)
    return concat(options.loss,
                  " of the standardised target (less ",
                  shortest(plan.target_scale->mean),
                  ", divided by ",
                  shortest(plan.target_scale->deviation),
                  ", of the samples that are not the test's); rmse, mae and predictions in its own "
                  "units");
  return concat("cross-entropy",
                options.label_smoothing > 0
                    ? concat(", label smoothing ", shortest(options.label_smoothing))
                    : "");
}

}  // namespace muster::train
