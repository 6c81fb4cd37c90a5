// Which action waits for which.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/pipeline/action/action_lists.h"

namespace muster::pipeline {

// Note [What an action waits for]
// For the one before it in its rank's list, and
//   F, B, I   for the neighbouring stage's, if that is on the same rank. If not: for what was
//             received, which stands before it in its own list (find_fault sees to that); in lists
//             without messages for the neighbour's action itself, and the time of the transfer
//   RECV      for its SEND, and the time of the transfer
//   SEND      for nobody, if messages are buffered: the rank goes on at once, and any number of
//             messages may be under way. As rendezvous a message takes both ranks: SEND and RECV
//             begin when both ranks have come to them, and end together.
// Lists that run with sends as rendezvous run with buffered ones, too; the reverse is not so. Which
// of the two a group offers is the group's; lower() makes lists for either.

enum class Sends : uint8_t { kBuffered, kRendezvous };

/// What lies between two actions beside the work.
enum class Transfer : uint8_t { kNone, kActivation, kGradient };

struct Dependency {
  Action action;
  int64_t rank = 0;
  int64_t position = 0;             ///< in the rank's list
  int64_t before = -1;              ///< index of the rank's action before; -1: none
  int64_t other = -1;               ///< index of another one it waits for; -1: none
  int64_t sender_stage = 0;         ///< the stage whose output is transferred
  Transfer lag = Transfer::kNone;   ///< between the end of `other` and the start
  Transfer work = Transfer::kNone;  ///< rendezvous: the message takes the rank's time
};

/// The graph of all actions of all ranks.
class Dependencies {
 public:
  /// `lists` have all that an action waits for: find_fault() looks for that first. Throws an
  /// internal error otherwise.
  Dependencies(const ActionLists& lists, Sends sends);

  std::span<const Dependency> all() const { return nodes_; }

  /// Indices, each after those that it waits for. Those that never come to run are missing.
  std::span<const int64_t> order() const { return order_; }
  bool has_deadlock() const { return order_.size() < nodes_.size(); }

  /// Who waits for whom in a circle, as indices: each waits for the next, the last for the first.
  /// Empty without a deadlock.
  std::vector<int64_t> circle() const;

 private:
  int64_t& index_of(const Action& action);
  void add_nodes(const ActionLists& lists);
  void connect(const ActionLists& lists, Sends sends, Dependency& node);
  void sort();

  int64_t stages_ = 0, micro_batches_ = 0;
  std::vector<int64_t> index_;  // by kind, stage and micro-batch
  std::vector<Dependency> nodes_;
  std::vector<int64_t> order_;
};

}  // namespace muster::pipeline
