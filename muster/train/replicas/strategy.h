// Strategies: how a run is spread over ranks. One file of strategies/ adds one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>

#include "muster/base/entry.h"
#include "muster/base/json.h"
#include "muster/base/params.h"
#include "muster/distributed/process_group.h"
#include "muster/memory/report/explain.h"
#include "muster/optim/optimizer.h"
#include "muster/parallel/ddp/bucket_memory.h"
#include "muster/pipeline/simulate/timeline.h"
#include "muster/tensor/named_tensors.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/replicas/parameter_rules.h"
#include "muster/train/replicas/unit_needs.h"
#include "muster/train/task/task.h"

namespace muster::train {

/// Of a checkpoint's loop: Strategy::record().
inline constexpr const char* kStrategyKey = "strategy";

/// What a strategy is made from, on each rank.
struct StrategyRequest {
  const FitPlan& plan;
  std::shared_ptr<torch::nn::Module> module;  ///< with the same weights on every rank
  distributed::ProcessGroup group;
  ParameterRules rules;  ///< alike on all ranks
  // For a strategy that runs the module's units itself.
  c10::Device device = c10::kCPU;  ///< where the module trains; see StrategyEntry::places_units
  at::Generator generator = {};    ///< what the module draws from while it trains
  /// The task's step on the first so many samples, which are read once, for what is found out before
  /// the first one. Whoever calls it puts back what it draws and what units change. Not collective.
  std::function<std::function<StepResult()>(int64_t samples)> example = {};
  /// Of the batches that wait on a device for their step, or are kept until it is made.
  double batch_bytes = 0;
  Json record = {};  ///< Strategy::record() of the run, or the probe, that goes on; else null
  std::function<void(const std::string& line)> note = {};  ///< shows it to the user, on rank 0
  /// Hears that the module is measured from now on, and no more. Not where an error ends it.
  std::function<void(bool on)> measures = {};
};

/// A batch that may be cut by rows.
struct BatchToCut {
  const data::Batch& batch;
  /// The task's step on some of the batch's rows, or on all.
  std::function<StepResult(const data::Batch& piece)> pass;
  std::function<double(const data::Batch& piece)> weight;  ///< of its mean loss
  double scale = 1;                                        ///< of the gradients
  int64_t step = 0;                                        ///< of the run
};

/// What a step found in a piece of a batch.
struct WeighedResult {
  StepResult result;  ///< without graph
  double weight = 0;
};

/// What a strategy has chosen to be fast could be chosen to take little memory.
struct LeastMemory {
  double share = 1;  ///< of what steps take on the rank that takes most
  Json record =
      {};  ///< Strategy::record() of a run that has chosen so, for StrategyRequest::record
};

/// One rank's module with its gradients and optimizer, as the training loop sees them. Used by the
/// rank's own thread. All members that do something are collective: every rank calls them in the
/// same order.
class Strategy {
 public:
  explicit Strategy(StrategyRequest request) : request_(std::move(request)) {}
  virtual ~Strategy() = default;

  /// Runs `pass`, a task's step on this rank's share of a batch. Backward of its loss leaves
  /// gradients that are averaged over the ranks.
  virtual StepResult forward(const std::function<StepResult()>& pass) { return pass(); }

  /// Runs `pass`, a forward and its backward, for a batch that is not the last one of its step: the
  /// average over the ranks may wait for the last.
  virtual void accumulate(const std::function<void()>& pass) { pass(); }

  /// Averages over the ranks what accumulate() alone has added up since zero_grad(), outside of any
  /// backward. For strategies with StrategyEntry::splits_steps.
  virtual void average_gradients() {}

  /// Whether forward and backward are one: the loop then calls forward_backward() for each batch, and
  /// none of forward() and the loss's backward().
  virtual bool trains_in_pieces() const { return false; }
  /// Adds the gradients of the batch's mean loss, times its scale, to those of the step, averaged
  /// over replicas. Returns what this rank has seen of it, which may be nothing.
  virtual std::vector<WeighedResult> forward_backward(const BatchToCut& /*batch*/) { return {}; }
  /// From now on steps take on this rank the most memory that they can, whichever rank comes late: for
  /// --batch-size auto. Not collective.
  virtual void take_most_memory() {}
  /// Where what was chosen for this batch takes more than it has to; alike on all ranks. Likewise for
  /// --batch-size auto alone.
  virtual std::optional<LeastMemory> least_memory() const { return std::nullopt; }
  /// What this rank did in the last of these, and when, by std::chrono::steady_clock.
  virtual std::vector<pipeline::Span> last_spans() const { return {}; }

  /// Whose step() updates all parameters on every rank, and whose zero_grad() drops all gradients.
  virtual optim::Optimizer& optimizer() = 0;

  /// Scales all gradients together so that their norm is at most `max_norm`. Returns the norm
  /// before, a scalar, the same number on every rank. See clip_grad_norm.
  virtual at::Tensor clip_gradients(double max_norm);
  /// Bounds each element of the gradients that the next step sees by `limit`. See clip_grad_value.
  virtual void clip_gradient_values(double limit);

  /// Whether the first backward of a process settles something (buckets) that later sums depend on.
  /// A resumed run then makes one on any batch, and drops its gradients, before it loads the
  /// checkpoint.
  virtual bool wants_rehearsal() const { return false; }

  /// The whole optimizer's state under the parameters' names, whatever the strategy, on rank 0; the
  /// other ranks may return nothing.
  virtual tensor::NamedTensorList optimizer_state() { return optimizer().state(); }
  /// Takes what optimizer_state() of any strategy and world size returned; given on every rank. The
  /// module has its weights already. Throws a usage error for a state that does not fit.
  virtual void load_optimizer_state(const tensor::NamedTensorList& state);

  /// The module's tensors become what is saved of them; given alike on every rank.
  virtual void load_weights(const std::vector<tensor::LoadedTensor>& tensors);

  // A strategy that shards the module's weights says so by all of these; else they are whole on
  // every rank, and these do nothing.

  virtual bool shards_weights() const { return false; }
  /// A task's evaluation of a batch, without gradients. Returns what this rank has seen of it, which
  /// may be nothing.
  virtual std::vector<WeighedResult> evaluate(const BatchToCut& batch);
  /// Takes part in evaluate() of the other ranks, where this one has no batch left; `batch` is some
  /// other one.
  virtual void stand_aside(const BatchToCut& /*batch*/) {}
  /// Gives the buffers of the first replica to the others and returns true, where ranks have unlike
  /// parts of the module; else false.
  virtual bool shares_buffers() { return false; }
  /// Which rank's task has seen whole steps.
  virtual int seeing_rank() const { return 0; }
  /// `state` is the module's, or a part of it, by name: with whole weights on rank 0, where they have
  /// room.
  virtual tensor::NamedTensorList whole_state(tensor::NamedTensorList state) { return state; }
  /// The same with this rank's pieces instead, as far as it has some. Not collective.
  virtual tensor::NamedTensorList own_state(tensor::NamedTensorList state) { return state; }
  /// What own_state() gave was written to, alike on all ranks that have a piece of the same.
  virtual void weights_written() {}

  /// What the transfer of gradients depends on besides (a communication hook's): this rank's own;
  /// names and shapes are alike on all ranks. Not collective, as its counterpart, which takes an
  /// empty list for a hook that has seen nothing.
  virtual tensor::NamedTensorList hook_state() const { return {}; }
  virtual void load_hook_state(const tensor::NamedTensorList& /*state*/) {}

  /// What it has found out and a run that goes on must not find otherwise; alike on all ranks. Null:
  /// nothing.
  virtual Json record() const { return nullptr; }
  /// The same in a line for people, or nothing.
  virtual std::string line() const { return ""; }
  /// Before a checkpoint, and at the end of a run: record() and end_lines() may tell more then.
  virtual void settle_record() {}
  /// What is known at the end of a run, for people.
  virtual std::vector<std::string> end_lines() const { return {}; }
  /// What this rank holds of the model beside the module's tensors and what the optimizer knows: for a
  /// report of memory that ran out. Not collective.
  virtual std::vector<memory::OwnedTensor> owned_memory() const { return {}; }
  /// Of buckets that gradients travel in: no batch makes them smaller. Not collective.
  virtual parallel::BucketMemory bucket_memory() const { return {}; }
  /// The gradients of this rank that forward_backward() has dropped as it failed, the last time that it
  /// was called: for a report of memory that ran out. Not collective.
  virtual std::vector<memory::OwnedMemory> dropped_memory() const { return {}; }

 protected:
  const std::shared_ptr<torch::nn::Module>& module() const { return request_.module; }
  const distributed::ProcessGroup& group() const { return request_.group; }

 private:
  StrategyRequest request_;
};

/// The request's optimizer over the module's parameters.
std::unique_ptr<optim::Optimizer> make_optimizer(const StrategyRequest& request);
/// The same over some of them, or over pieces of them.
std::unique_ptr<optim::Optimizer> make_optimizer(const FitPlan& plan,
                                                 const ParameterRules& rules,
                                                 tensor::NamedTensorList parameters);

/// Bytes of optimizer state for each byte of a parameter, as a step on a small one leaves them.
double state_bytes_per_byte(const FitPlan& plan);

/// For a measurement whose steps no schedule moves: gives the optimizer the momentum, if it has one,
/// that the plan's schedule will, so that it keeps the state that it will keep.
void set_most_momentum(const FitPlan& plan, optim::Optimizer& optimizer);

/// Where the ranks of a run come from.
enum class RankSource {
  kNone,       ///< there is one rank
  kProcesses,  ///< processes that a launcher started, or threads of one, --devices of them
  kThreads,    ///< threads of this process alone
};

struct StrategyEntry {
  static constexpr std::string_view kKind = "strategy";
  std::string_view name;
  std::string_view help;
  RankSource ranks;
  std::span<const Param> params;
  /// What make() would refuse, in words of the command line: when the plan is made, before there is
  /// a group or an output folder. Throws a usage error.
  void (*check)(const FitOptions& options, const FitNumbers& numbers, const ParamValues& params);
  /// Collective; `params` have been checked.
  std::unique_ptr<Strategy> (*make)(StrategyRequest request, const ParamValues& params);
  bool takes_whole_task = false;  ///< not one of several parts of a task
  /// Recomputes the module's units as --activation-checkpointing says by itself.
  bool recomputes_units = false;
  bool takes_comm_hook = false;  ///< of --comm-hook
  /// How many of the ranks hold one model between them and see the same samples; null: each rank
  /// has its own. Throws a usage error unless they are whole replicas.
  int64_t (*ranks_per_replica)(int64_t world_size, const ParamValues& params) = nullptr;
  /// Gets the module's units on the CPU, and brings them by itself to where it needs them, so that
  /// no device ever has to hold all of them.
  bool places_units = false;
  /// What make() would refuse of a module, as far as one rank can tell; null: nothing. Throws as make().
  /// `record`: StrategyRequest::record.
  void (*check_module)(torch::nn::Module& module,
                       const FitPlan& plan,
                       const ParamValues& params,
                       const Json& record) = nullptr;
  /// A step may fail on one rank and be made again (--on-oom split): with that option no rank meets
  /// another one in accumulate(), and forward_backward() fails on all ranks where it fails on one.
  bool splits_steps = false;
  /// Into how many pieces a replica's batch is cut, for --batch-size auto; null: into none. Throws a
  /// usage error where the parameters leave that to be measured.
  int64_t (*batch_pieces)(const ParamValues& params) = nullptr;
  /// The strategy as one says it to have the numbers' batch cut into more pieces, with which a rank keeps
  /// fewer samples between forward and backward: for a hint. Empty: there is no such thing. Null likewise.
  std::string (*with_smaller_pieces)(const FitNumbers& numbers,
                                     const ParamValues& params) = nullptr;
  /// Likewise, to have it in one piece. Empty: it is, or there is no such thing.
  std::string (*with_one_piece)(const FitNumbers& numbers, const ParamValues& params) = nullptr;
  /// Likewise, to have a model of these units cut without measuring it, so that each rank's share of them,
  /// in one piece if need be, is within `room` bytes.
  std::string (*with_named_cut)(const FitNumbers& numbers,
                                const ParamValues& params,
                                const std::vector<UnitNeeds>& units,
                                double room) = nullptr;
  /// A rank holds a part of the weights, the gradients or the optimizer's state, not all of them.
  bool divides_model = false;
  /// Gradients have places of their own on a rank, in steps that are not made again: one that is made
  /// lies beside the place that it goes to.
  bool fills_buckets = false;
  /// What record() of a run tells people, for --explain; null: nothing.
  std::vector<std::string> (*lines_of_record)(const Json& record) = nullptr;
  /// What others call it, for the hint of an error; empty: as we do.
  std::string_view also_called = {};
};

/// Bytes of `bucket_mb` MiB. Throws a usage error that names `owner` for none, and for more than a
/// TiB.
int64_t bucket_bytes_of(int64_t bucket_mb, std::string_view owner);

/// Of a command line. Throws a usage error, with a hint for a name that others know one by.
const StrategyEntry& strategy_named(std::string_view name);

/// All strategies (generated; see Note [Generated tables]).
EntryTable<StrategyEntry> strategies();

}  // namespace muster::train
