// A training step that does not fit into memory is made again in smaller micro-batches, to the same gradients.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Generator.h>
#include <c10/util/ArrayRef.h>
#include <torch/nn/module.h>

#include "muster/distributed/process_group.h"
#include "muster/memory/guard/micro_batch.h"

namespace muster::memory {

// Note [Steps made again]
// A step is forwards and backwards over all of its samples, up to the optimizer's. When one of its
// allocations fails, on any rank, all ranks put gradients, buffers and generators back to what they
// were before the step, give back what their allocators hold idle, and make the whole step again:
// once with the same size, if there was room and only its place or time was wrong (OutOfMemory::may_pass_again),
// else with micro-batches of half the rows, and so on down to GuardOptions::smallest. The sum over
// micro-batches of mean loss times weight is the batch's mean loss, so the gradients are those of the
// batch but for the order of their sums; and they are bit for bit those of a run that has had that
// size from this step on. The size is kept. After GuardOptions::try_larger_after steps that were
// split and passed, one step is tried with twice the rows; if that fails, the wait is doubled.
//
// What cannot be the same: a layer that looks at other rows of its batch (a batch normalisation that
// trains), and whatever draws random numbers, whose draws then come in another order. The first is
// refused, unless may_differ says otherwise, by the layers' names and by buffers that a step changes;
// the second is told (GuardEvent::Kind::kDraws). A loss that is a mean over something else than rows
// (the tokens that are no padding) needs weights: see step().
//
// Ranks: whether a step has passed is agreed on after each attempt, by one all-reduce of a few numbers
// outside of any backward. So no rank waits in a collective that another one never reaches, whichever
// allocation fails: what is guarded may make no collective of its own, but for one that fails on all
// ranks where it fails on one (distributed::PeerFailure, as a step of DistributedPipeline).
// DistributedDataParallel makes some in backward: average the gradients afterwards, by
// parallel::GradientAverage.
//
// The optimizer's step is not guarded: half of the weights may be new when it fails, and splitting the
// batch makes it no smaller.

struct GuardOptions {
  int64_t micro_batch = 0;         ///< rows of a rank at a time, to begin with; 0: its whole batch
  int64_t smallest = 1;            ///< rows, below which a step is given up
  int64_t try_larger_after = 500;  ///< steps; 0: never
  bool retry_same_size = true;     ///< where the error says that there was room
  bool may_differ = false;         ///< batch statistics may be those of micro-batches
  /// That the step draws from. Empty: the default ones of the CPU and of the module's devices. Ranks that
  /// are threads share these: give each rank its own there.
  std::vector<at::Generator> generators;
  std::optional<distributed::ProcessGroup> group;       ///< of the ranks that step together
  std::function<void(const struct GuardEvent&)> heard;  ///< on every rank, in its thread
};

/// Something that a guard did.
struct GuardEvent {
  enum class Kind {
    kSplit,      ///< memory ran out: again in micro-batches of `micro_batch` rows
    kSameAgain,  ///< memory ran out though there was room: again as it was
    kLarger,     ///< a step passed with twice the rows, after many with fewer: they are kept
    kDraws,      ///< a split step drew random numbers: others than the whole one would have
    kDiffers,    ///< a split step changed batch statistics (only with may_differ)
  };
  Kind kind = Kind::kSplit;
  int64_t tried = 0;        ///< rows of the largest micro-batch that failed; 0: none did
  int64_t micro_batch = 0;  ///< rows from now on; 0: whole batches
  int rank = 0;             ///< whose memory ran out; the first of them
  /// That rank's error, on every rank; where there are several, behind its number. kDiffers: the buffer's name.
  std::string words;
};

/// "out of memory with 32 samples at a time (CUDA out of memory. Tried to …): the step is made again,
/// 16 at a time".
std::string text_of(const GuardEvent& event);

/// How a step came about.
struct GuardedStep {
  int64_t attempts = 1;
  int64_t micro_batches = 1;  ///< of the attempt that passed, on this rank
  bool is_split = false;      ///< some batch was cut, on this rank
};

/// What a checkpoint keeps, so that a run that goes on makes the same steps.
struct GuardState {
  int64_t micro_batch = 0;
  int64_t clean_steps = 0;  ///< split and passed since the last change
  int64_t wait_steps = 0;   ///< after which more rows are tried; 0: never
  int64_t failures = 0;     ///< attempts of the whole run in which memory ran out on some rank
};

///     muster::memory::Guard guard(*net);
///     for (const auto& [x, y] : batches) {
///       optimizer.zero_grad();
///       guard.step(x.size(0), [&](const muster::memory::MicroBatch& part) {
///         const auto loss = torch::mse_loss(net->forward(part.of(x)), part.of(y));
///         (loss * part.weight).backward();
///       });
///       optimizer.step();
///     }
///
/// Used by the rank's own thread; step() is collective where there is a group. See Note [Steps made again].
class Guard {
 public:
  using MicroStep = std::function<void(const MicroBatch&)>;

  /// `module`, which the steps train, outlives this. Throws a usage error for options out of range.
  explicit Guard(torch::nn::Module& module, GuardOptions options = {});
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// Calls `run`, a forward and its backward, for each micro-batch of a batch of `rows`, in order; when
  /// memory runs out, from the first one again, of other sizes. It returns when all ranks have
  /// passed. `run` keeps no tensor of an attempt behind it, and what it sums up itself it begins anew
  /// where part.is_first(). `weights`: what the mean loss of the rows is over, by row; empty: each counts alike.
  ///
  /// Throws what `run` throws that is no failure of memory, without putting anything back. If even
  /// GuardOptions::smallest rows do not fit, or the module cannot be split: an environment error with
  /// LibTorch's nested in it, on every rank, everything put back.
  GuardedStep step(int64_t rows, const MicroStep& run, c10::ArrayRef<double> weights = {});
  /// The same for a step of several batches, whose gradients add up: MicroBatch::batch tells which.
  GuardedStep step(c10::ArrayRef<int64_t> rows,
                   const MicroStep& run,
                   c10::ArrayRef<double> weights = {});

  /// From now on a step that does not fit is given up: to measure what fits.
  void fail_at_once() { fails_at_once_ = true; }

  /// A step was given up that had GuardOptions::smallest rows at a time: no batch size helps.
  bool has_failed_at_smallest() const { return failed_at_smallest_; }

  /// Rows at a time, on a rank; 0: whole batches, since memory has not run out.
  int64_t micro_batch() const { return state_.micro_batch; }
  const GuardState& state() const { return state_; }
  /// Alike on all ranks. Throws a usage error for numbers below 0.
  void load_state(const GuardState& state);

  /// A layer of the module that trains and looks at the whole batch, by name; empty: none is known.
  static std::string batch_layer(const torch::nn::Module& module);

 private:
  struct Own;
  struct Verdict;
  struct Parts;

  Own attempt(const std::vector<MicroBatch>& pieces, const MicroStep& run);
  Verdict agree(const Own& own, const std::vector<MicroBatch>& pieces);
  void give_back_idle() const;
  void shrink(const Verdict& verdict, const Own& own);
  [[noreturn]] void give_up(const Verdict& verdict, const Own& own, const std::string& why) const;
  void check_split();
  void after_pass(const Verdict& verdict);
  void tell_failure(GuardEvent::Kind kind, const Verdict& verdict, const Own& own) const;
  void tell(GuardEvent event) const;

  torch::nn::Module& module_;
  GuardOptions options_;
  GuardState state_;
  int64_t before_trial_ = 0;  // the size to fall back to
  bool is_trial_ = false;     // this step has twice the rows
  bool told_draws_ = false, checked_ = false, fails_at_once_ = false;
  bool failed_at_smallest_ = false;
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster::memory
