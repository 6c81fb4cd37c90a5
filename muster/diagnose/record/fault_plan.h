// Faults to inject, as text: who does what wrong, and when. For tests.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/diagnose/record/op_record.h"

namespace muster::diagnose {

enum class FaultAction {
  kKill,     ///< SIGKILL to this process
  kStop,     ///< SIGSTOP to this process: every thread stands still, heartbeats too
  kThrow,    ///< an exception out of the call
  kDelay,    ///< the call comes later by `delay`
  kSkip,     ///< the call is not made; its Work says that it is done
  kReorder,  ///< the call is made behind the next one (or when it is waited for, if that is sooner)
  kNan,      ///< the first element of each floating-point input becomes NaN
};

/// One fault. Every condition that is set must hold.
struct FaultRule {
  FaultAction action = FaultAction::kThrow;
  std::chrono::milliseconds delay{0};  ///< kDelay alone
  std::optional<int64_t> rank;         ///< nothing: every rank
  std::optional<OpKind> op;            ///< nothing: every collective
  std::optional<int64_t> at;  ///< 1, 2, …: the n-th call that rank, op and step let through, alone
  std::optional<int64_t> step;  ///< while the program is in this step (mark_step)
  bool operator==(const FaultRule&) const = default;
};

/// In the order in which they are tried; several may strike one call.
using FaultPlan = std::vector<FaultRule>;

/// `kill@rank=1,op=all_reduce,at=7; delay=200ms@op=broadcast; nan@rank=0,step=3`: rules between
/// semicolons or line ends, each an action (kill, stop, throw, delay=DURATION, skip, reorder, nan)
/// and, after an @, conditions between commas. Durations: 200ms, 1.5s, 2m. Throws a usage error
/// that names the rule and what is wrong in it; a nan of a call that has no inputs can strike nothing.
FaultPlan parse_fault_plan(std::string_view text);

/// Reads back as the same plan.
std::string fault_plan_text(const FaultPlan& plan);

}  // namespace muster::diagnose
