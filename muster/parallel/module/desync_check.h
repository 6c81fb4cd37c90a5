// Finds parameters that have silently become different between ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "muster/distributed/process_group.h"
#include "muster/parallel/module/tensors.h"

namespace muster::parallel {

/// Every `every_steps` steps the ranks compare 64-bit hashes of a few parameters, the next ones
/// each time, so that all have their turn. What differs is said at once: by then training has been
/// wrong for some steps, but no longer unnoticed. Ranks on different kinds of devices are not
/// compared with each other: they round differently.
class DesyncCheck {
 public:
  /// Parameters are taken in turns of about `turn_bytes`, at least one at a time. `every_steps` 0:
  /// never.
  DesyncCheck(NamedTensors parameters,
              distributed::ProcessGroup group,
              int64_t every_steps,
              int64_t turn_bytes = kTurnBytes);

  /// Before a step's forward, on every rank. When it is time: hashes and starts the exchange.
  void start_step();
  /// After that forward. Throws a usage error that names the ranks, the parameter and the step.
  void end_forward();

  /// What ranks have found out: which of them, and of which column, differ.
  struct Difference {
    int64_t column = 0;
    int64_t reference = 0;        ///< the lowest rank of those with the value that most have
    std::vector<int64_t> others;  ///< ranks of the same kind of device with another value
  };
  /// The first, if any. `hashes` // [ranks, columns + 1], the last one is the kind of device.
  static std::optional<Difference> first_difference(const at::Tensor& hashes);

  static constexpr int64_t kTurnBytes = 4 << 20;  ///< 0.4 ms of reading, once in every_steps

 private:
  void post();
  [[noreturn]] void report(const Difference& difference) const;

  NamedTensors parameters_;
  distributed::ProcessGroup group_;
  int64_t every_steps_;
  std::vector<std::pair<size_t, size_t>> turns_;  // [from, to) of parameters_
  int64_t step_ = 0;                              // started ones
  size_t turn_ = 0;
  std::vector<at::Tensor> hashes_;  // by rank, [parameters of the turn + 1] int64
  c10::intrusive_ptr<c10d::Work> work_;
};

}  // namespace muster::parallel
