// What DistributedDataParallel does around a module's forward, without the module's type.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "muster/parallel/process_group.h"

namespace c10d {
class Reducer;
}

namespace muster::parallel {

/// Names and defaults are those of torch.nn.parallel.DistributedDataParallel.
struct DdpOptions {
  int64_t bucket_bytes_cap = 25 << 20;  ///< gradients travel in buckets of at most this many bytes
  int64_t first_bucket_bytes_cap =
      1 << 20;  ///< the first bucket is smaller, so that its reduction starts early
  bool find_unused_parameters =
      false;  ///< walk the graph each step for parameters that this step does not use
  bool broadcast_buffers =
      true;  ///< rank 0's buffers (BatchNorm's statistics) go to all ranks before each forward
  /// Gradients are views into the buckets: saves one copy and the memory. LibTorch's
  /// Optimizer::zero_grad() throws on such gradients; use DistributedDataParallel::zero_grad().
  bool gradient_as_bucket_view = false;
  bool init_sync =
      true;  ///< verify, then broadcast rank 0's parameters and buffers at construction
  std::vector<std::string>
      parameters_to_ignore;  ///< by name, parameters and buffers: neither broadcast nor averaged
};

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Averages the gradients of one rank's parameters over the group while backward runs.
/// Source: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel
/// Training"; order of calls as in PyTorch's DistributedDataParallel, engine: c10d::Reducer. Used
/// by the rank's own thread.
class GradientSync {
 public:
  /// Collective. Throws a usage error, the same on every rank, that names the first parameter or
  /// buffer in which the ranks' modules differ (name, shape, dtype, requires_grad), before anything
  /// is changed.
  GradientSync(NamedTensors parameters,
               NamedTensors buffers,
               ProcessGroup group,
               DdpOptions options);
  ~GradientSync();

  /// Throws a usage error that names the parameters if the previous backward left some without
  /// gradient.
  void before_forward();
  /// `outputs` are replaced in place where the graph needs a mark of our own
  /// (find_unused_parameters).
  void after_forward(const std::vector<at::Tensor*>& outputs);

  /// Off: gradients add up locally. Must cover forward and backward; see NoSync.
  void set_sync(bool on) { sync_ = on; }
  bool sync() const { return sync_; }

  /// Drops all gradients, views into buckets too.
  void zero_grad();

  const ProcessGroup& group() const { return group_; }

 private:
  void verify_across_ranks() const;
  void broadcast(const std::vector<at::Tensor>& tensors) const;
  void build_reducer();
  void prepare_step();
  [[noreturn]] void explain(const std::exception& error) const;

  NamedTensors parameters_;  // trained ones, each storage once, in the module's order
  NamedTensors frozen_;      // parameters that do not require gradients
  NamedTensors buffers_;
  ProcessGroup group_;
  DdpOptions options_;
  std::unique_ptr<c10d::Reducer> reducer_;
  bool sync_ = true;
  bool buffers_due_ =
      true;  // the last forward was synchronised, so the next one starts from rank 0's buffers
};

}  // namespace muster::parallel
