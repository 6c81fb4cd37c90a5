// PowerSGD: gradients travel as products of two thin matrices.
#pragma once

#include <cstdint>
#include <memory>

#include "muster/parallel/hook/comm_hook.h"

namespace muster::parallel {

/// Names in PyTorch's PowerSGDState: matrix_approximation_rank, start_powerSGD_iter,
/// min_compression_rate, use_error_feedback, warm_start, orthogonalization_epsilon, random_seed.
struct PowerSgdOptions {
  int64_t rank = 1;                 ///< columns of the thin matrices
  int64_t start = 1000;             ///< steps that travel uncompressed first
  double min_compression_rate = 2;  ///< a matrix travels whole unless this much smaller
  bool error_feedback = true;       ///< what a step loses is added to the next one's gradient
  bool warm_start = true;           ///< Q of the last step is where the next one starts
  double epsilon = 0;               ///< added to the norms by which columns are divided
  int64_t seed = 0;                 ///< of the first Qs
};

/// Throws a usage error for a rank below 1, a negative start, or a rate below 0.
std::shared_ptr<CommHook> make_powersgd(const distributed::ProcessGroup& group,
                                        const PowerSgdOptions& options);

}  // namespace muster::parallel
