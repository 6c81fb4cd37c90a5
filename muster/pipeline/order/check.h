// Whether lists of actions can be carried out, and if not, which action is at fault.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/pipeline/order/dependencies.h"

namespace muster::pipeline {

struct CheckOptions {
  Sends sends = Sends::kBuffered;
  /// By rank, the most activations it may hold at once (peak_in_flight). Empty: any number.
  std::vector<int64_t> in_flight = {};
};

/// Why lists are refused.
struct Fault {
  int64_t rank = 0;
  int64_t position = -1;  ///< in the rank's list, from 0; -1: the action is missing
  Action action;
  std::string reason;  ///< "comes twice"

  /// "rank 1, action 5: forward of stage 1, micro-batch 2 (1F2) comes twice".
  std::string text() const;
};

/// Nothing if the lists are whole and can run, else the first fault that is found. They are whole
/// when each stage has each micro-batch's F once, and once B or I and W; F stands before B and I, I
/// before W; what crosses ranks is sent once and received once, between the actions that make and
/// need it, or no list has any message; messages of one boundary in one direction keep their order;
/// all stages average once, behind their last B or W, or none does. They can run when nobody waits
/// in a circle (Note [What an action waits for]) and nobody holds more activations than allowed.
std::optional<Fault> find_fault(const ActionLists& lists, const CheckOptions& options = {});

/// Throws a usage error with the fault, if there is one.
void require_runnable(const ActionLists& lists, const CheckOptions& options = {});

}  // namespace muster::pipeline
