// A schedule as data: what each rank does, one action after the other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/pipeline/action/action.h"
#include "muster/pipeline/action/placement.h"

namespace muster::pipeline {

/// See Note [Pipeline actions]. Any lists can stand here; find_fault() says whether they can be
/// carried out.
struct ActionLists {
  Placement placement;
  int64_t micro_batches = 1;
  std::vector<std::vector<Action>> ranks;  ///< by rank, in order

  bool has_messages() const;
  bool splits_backward() const;  ///< into I and W
  bool operator==(const ActionLists&) const = default;
};

/// A line for each rank, actions between commas: PyTorch's file format (`_dump_csv`).
std::string to_csv(const ActionLists& lists);

/// The inverse. Idle slots, which PyTorch writes as empty cells, are left out; each stage is on the
/// rank that computes it, and the micro-batches are counted. Throws a usage error for what cannot
/// be read, for a stage that is on two ranks or none, and beyond a million actions.
ActionLists parse_csv(std::string_view text);

/// What a stage holds for one micro-batch, in bytes or in any unit.
struct StageBytes {
  double activation = 1;  ///< from the begin of F to the end of B or I
  double kept = 1;        ///< of these, what stays from the end of I to the end of W
  double caught = 0;      ///< gradients that I leaves, until the end of W
  double work = 0;        ///< while one of its actions runs, beside what is held
  /// The most that I takes beside what is held when it begins, its work included: gradients are
  /// left block by block. Nothing: `caught` and `work`, as if at once.
  std::optional<double> input_rise = {};
  /// Its input's gradient, from the end of B or I until another stage takes it. See Note [Letters wait].
  double gradient = 0;
};

/// What a rank holds for its stages while it goes through its list, letters apart.
class HeldBytes {
 public:
  /// One StageBytes per stage; they live as long.
  explicit HeldBytes(std::span<const StageBytes> stages) : stages_(stages) {}

  /// Begins an action. Returns what is held while it runs, its work included.
  double begin(const Action& action);
  /// Returns what is held then.
  double end(const Action& action);

 private:
  const StageBytes& of(const Action& action) const {
    return stages_[static_cast<size_t>(action.stage)];
  }

  std::span<const StageBytes> stages_;
  double held_ = 0;
};

/// The most that each rank holds at once, a function of its list alone: no letter waits. One
/// StageBytes per stage.
std::vector<double> peak_bytes(const ActionLists& lists, std::span<const StageBytes> stages);

/// How many activations each rank holds at most, one for each stage and micro-batch between F and
/// the end of B or W.
std::vector<int64_t> peak_in_flight(const ActionLists& lists);

}  // namespace muster::pipeline
