// Strategies: how a run is spread over ranks. One file of strategies/ adds one.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "muster/base/entry.h"
#include "muster/base/params.h"
#include "muster/data/dataset.h"
#include "muster/distributed/process_group.h"
#include "muster/models/model.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/safetensors.h"

namespace muster::train {

struct TrainPlan;

/// What a strategy is made from, on each rank.
struct StrategyRequest {
  const TrainPlan& plan;
  std::shared_ptr<models::Classifier> model;  ///< with the same weights on every rank
  distributed::ProcessGroup group;
};

/// One rank's model with its gradients and optimizer, as the training loop sees them. Used by the
/// rank's own thread. All members but optimizer() are collective: every rank calls them in the same
/// order.
class Strategy {
 public:
  explicit Strategy(StrategyRequest request);
  virtual ~Strategy() = default;

  /// Scores // [N, classes] of this rank's share of a batch. Backward of a loss made from them
  /// leaves gradients that are averaged over the ranks.
  virtual at::Tensor forward(const at::Tensor& images);

  /// Runs `pass`, a forward and its backward, for a batch that is not the last one of its step: the
  /// average over the ranks may wait for the last.
  virtual void accumulate(const std::function<void()>& pass) { pass(); }

  /// Whose step() updates all parameters on every rank, and whose zero_grad() drops all gradients.
  virtual optim::Optimizer& optimizer() = 0;

  /// Scales all gradients together so that their norm is at most `max_norm`. Returns the norm
  /// before, the same number on every rank. See clip_grad_norm.
  virtual double clip_gradients(double max_norm);

  /// Once, before a checkpoint is loaded: brings this process to where the first backward of an
  /// unbroken run left it. `batch` is any batch; its gradients are thrown away, but BatchNorm's
  /// statistics and the generator move.
  virtual void rehearse(const data::Batch& batch);

  /// The whole optimizer's state under the parameters' names, whatever the strategy, on rank 0; the
  /// other ranks may return nothing.
  virtual tensor::NamedTensorList optimizer_state();
  /// Takes what optimizer_state() of any strategy and world size returned; given on every rank. The
  /// model has its weights already. Throws a usage error for a state that does not fit.
  virtual void load_optimizer_state(const tensor::NamedTensorList& state);

 protected:
  /// A training pass over `batch` whose gradients are dropped.
  void rehearse_backward(const data::Batch& batch);

  const std::shared_ptr<models::Classifier>& model() const { return request_.model; }
  const distributed::ProcessGroup& group() const { return request_.group; }

 private:
  StrategyRequest request_;
};

/// Where the ranks of a run come from.
enum class RankSource {
  kNone,       ///< there is one rank
  kProcesses,  ///< each is a process that a launcher started; one alone is enough
  kThreads,    ///< threads of this process, --devices of them
};

struct StrategyEntry {
  static constexpr std::string_view kKind = "strategy";
  std::string_view name;
  std::string_view help;
  RankSource ranks;
  std::span<const Param> params;
  /// What make() would refuse, in words of the command line: when the plan is made, before there is
  /// a group or an output folder. Throws a usage error.
  void (*check)(const TrainPlan& plan, const ParamValues& params);
  /// Collective; `params` have been checked.
  std::unique_ptr<Strategy> (*make)(StrategyRequest request, const ParamValues& params);
};

/// Bytes of `bucket_mb` MiB. Throws a usage error that names `owner` for none, and for more than a
/// TiB.
int64_t bucket_bytes_of(int64_t bucket_mb, std::string_view owner);

/// All strategies (generated; see Note [Generated tables]).
EntryTable<StrategyEntry> strategies();

}  // namespace muster::train
