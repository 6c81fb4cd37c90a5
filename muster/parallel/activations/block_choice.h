// Which blocks of a model run again in backward, so that it fits.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::parallel {

// Note [Bytes of blocks]
// Between forward and backward a block that is run plainly keeps what its operations saved; one
// that is checkpointed keeps its input. Block i's output is block i + 1's input and is kept once,
// by whichever of them saves it. Backward comes to the last block first; a checkpointed one then
// has all of its activations for a moment, while the blocks before it still keep theirs. So the
// peak is the most, over all blocks, of what the blocks before keep and this one has in full.
// Parameters, gradients and what lies before and behind the blocks come on top. Where several
// micro-batches are between forward and backward (in flight), as in a pipeline, each keeps as much,
// and one of them is in backward.

/// A block as a forward has found it, in bytes.
struct BlockBytes {
  int64_t input = 0;          ///< of the tensor that comes in
  int64_t inner = 0;          ///< saved, input and output apart
  int64_t output = 0;         ///< of the tensor that goes out
  bool saves_input = true;    ///< so that running it plainly keeps it
  bool saves_output = false;  ///< the same of its output
  double cost = 1;            ///< of running it again, in any unit
};

/// The peak of blocks of which those with `again` are checkpointed.
int64_t peak_bytes(std::span<const BlockBytes> blocks,
                   const std::vector<bool>& again,
                   int64_t in_flight = 1);

/// Those to checkpoint so that the peak is at most `budget_bytes`, at the least cost (and among
/// equal costs the one that keeps least); nothing if there is no such choice.
std::optional<std::vector<bool>> cheapest_choice(std::span<const BlockBytes> blocks,
                                                 int64_t budget_bytes,
                                                 int64_t in_flight = 1);

/// The least budget within which there is a choice.
int64_t least_budget(std::span<const BlockBytes> blocks, int64_t in_flight = 1);
/// The same of anything: up to `enough`, for which `is_within` says yes, as for all above one for which
/// it does.
int64_t least_budget(int64_t enough, const std::function<bool(int64_t bytes)>& is_within);

/// What is asked for: "off", "blocks" (every one), "every:K" (block K, 2 K, …, counted from 1) or
/// "budget:BYTES" (1500000, 24KiB, 512MiB, 2GiB). Of a pipeline also "budget:BYTES/BYTES/…", one for
/// each stage, and ",offload=off" or ",offload=BYTES" behind it: a second's between device and host.
struct BlockRule {
  enum class Kind { kOff, kEvery, kBudget };
  Kind kind = Kind::kOff;
  int64_t every = 1;
  int64_t budget_bytes = 0;
  std::vector<int64_t> stage_budgets = {};          ///< by stage, where there are several
  std::optional<int64_t> offload_bytes_per_s = {};  ///< 0: off; none: measured

  bool is_of_pipeline() const { return !stage_budgets.empty() || offload_bytes_per_s; }

  bool operator==(const BlockRule&) const = default;
};

/// Throws a usage error that names `flag`.
BlockRule parse_block_rule(std::string_view text, std::string_view flag);

/// The blocks that the rule means. Throws a usage error, with the least budget that would do, if no
/// choice is within the rule's, of which `beside_bytes` are held in any case. `blocks` may be of zero
/// bytes unless there is one.
std::vector<bool> blocks_by_rule(const BlockRule& rule,
                                 std::span<const BlockBytes> blocks,
                                 int64_t in_flight = 1,
                                 int64_t beside_bytes = 0);

}  // namespace muster::parallel
