#include "muster/train/loop/divergence.h"

#include <cmath>

#include "muster/base/text.h"
#include "muster/train/checkpoints/model_state.h"

namespace muster::train {

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

void Divergence::check_loss(const Evaluation& seen,
                            const std::string& what,
                            const Where& where) const {
  const double loss = seen.metrics["loss"];
  if (!std::isfinite(loss)) end(where, {.what = what, .value = shortest(loss), .after = true});
}

}  // namespace muster::train
