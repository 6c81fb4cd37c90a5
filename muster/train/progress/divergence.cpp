#include "muster/train/progress/divergence.h"

#include <cmath>
#include <limits>
#include <optional>

#include "muster/base/text.h"
#include "muster/train/checkpoints/model_state.h"

namespace muster::train {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// A rate is seldom to blame for a metric where the loss is finite.
NotFinite metric_not_finite(const std::string& whose,
                            const std::string& name,
                            double value,
                            bool after) {
  NotFinite found{.what = concat(whose, "metric ", name), .value = shortest(value), .after = after};
  if (std::isnan(value))
    found.hint = "where a batch has nothing to count, the task returns the value with the weight 0";
  return found;
}

}  // namespace

void Divergence::end(const Where& where, const NotFinite& found) const {
  const Error error = not_finite_error(plan_, where.position, where.lr, where.last_saved, found);
  log_.diverged(where.position.step, error.text().refused);
  if (group_.rank() == 0 && callbacks_.not_finite) callbacks_.not_finite(error);
  throw Diverged(error.kind(), error.text());
}

void Divergence::check_weights(const tensor::NamedTensorList& own, const Where& where) const {
  const std::string mine = first_not_finite(own, infinite_).value_or("");
  for (const std::string& name : group_.all_gather_text(mine)) {
    if (!name.empty())
      end(where, {.what = "the tensor " + name, .value = "NaN or infinity", .after = true});
  }
}

void Divergence::check_metrics(const Meter& sums, const Where& where) const {
  const std::optional<size_t> found = sums.first_nan();
  if (found) end(where, metric_not_finite("", sums.list()[*found].name, kNan, /*after=*/false));
}

void Divergence::check_evaluation(const Evaluation& seen, Phase phase, const Where& where) const {
  const std::string what = phase == Phase::kTest ? "the test" : "the validation";
  const double* loss = seen.metrics.find("loss");
  if (loss != nullptr && !std::isfinite(*loss))
    end(where, {.what = concat(what, " loss"), .value = shortest(*loss), .after = true});
  for (const auto& [name, value] : seen.metrics) {
    const bool judges = phase == Phase::kValidate && name == plan_.monitored;
    if (std::isnan(value) || (judges && !std::isfinite(value)))
      end(where, metric_not_finite(concat(what, "'s "), name, value, /*after=*/true));
  }
}

}  // namespace muster::train
