// When to end a run that no longer gets better.
#pragma once

#include <cstdint>
#include <optional>

#include "muster/base/json_fwd.h"

namespace muster::train {

struct EarlyStoppingOptions {
  int64_t patience = 5;    ///< stop after so many epochs in a row that were not better (0 is as 1)
  double min_delta = 0;    ///< how much better counts as better
  bool wants_less = true;  ///< a loss; false: an accuracy
};

/// Told a metric of each validation, the same on every rank: of one per epoch, or of more, which
/// then stand for epochs below (val_check_interval; Lightning counts patience so, too). An epoch is better
/// that beats the best so far by more than min_delta; NaN never is. The rule is Keras's and
/// Lightning's. One thread.
class EarlyStopping {
 public:
  /// Throws a usage error for a negative number.
  explicit EarlyStopping(const EarlyStoppingOptions& options);

  /// Returns whether this epoch is the best so far: the one to keep a checkpoint of.
  bool after_epoch(double metric);
  /// Whether patience is at its end.
  bool should_stop() const;

  std::optional<double> best() const { return best_; }
  int64_t best_epoch() const { return best_epoch_; }  ///< 0-based; -1: none yet
  int64_t epochs_waited() const { return epochs_ - 1 - best_epoch_; }

  Json state() const;
  /// Throws a usage error for anything but a state.
  void load_state(const Json& state);

 private:
  EarlyStoppingOptions options_;
  std::optional<double> best_;
  int64_t best_epoch_ = -1;
  int64_t epochs_ = 0;  // told so far
};

}  // namespace muster::train
