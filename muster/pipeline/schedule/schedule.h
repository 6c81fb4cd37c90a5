// Pipeline schedules. One file of schedules/ adds one; see docs/add-a-pipeline-schedule.md.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/entry.h"
#include "muster/base/params.h"
#include "muster/pipeline/action/action_lists.h"
#include "muster/pipeline/action/stage_times.h"

namespace muster::pipeline {

// Note [Pipeline schedules]
// A schedule is a pure function of sizes to lists of actions (Note [Pipeline actions]), without
// messages and averages, which lower() and with_averages() add. It says two things of itself, by
// the formulas of its source, which the tests hold against its lists: how many activations each
// rank holds at most, and how long a rank stands idle when all stages are equal and transfers take
// no time. Symbols, there and in the files of schedules/: P ranks, S stages, V = S / P stages on
// each rank (virtual stages), M micro-batches; F, I and W the times of a stage's forward, of its
// input's and of its weights' gradient; B = I + W.

struct PipelineSizes {
  int64_t stages = 1;
  int64_t ranks = 1;
  int64_t micro_batches = 1;
};

struct Schedule {
  ActionLists lists;
  /// By rank: the most activations it holds at once (peak_in_flight).
  std::vector<int64_t> in_flight;
  /// For equal stages of these times and transfers that take none: the longest time that a rank is
  /// idle between its first action and its last. Nothing where no closed form is known.
  std::function<std::optional<double>(const StageTimes& times)> idle_s;
};

struct ScheduleEntry {
  static constexpr std::string_view kKind = "pipeline schedule";
  std::string_view name;
  std::string_view help;
  std::span<const Param> params;
  /// Stages per rank that it is made for: `muster pipeline` takes these when none are asked for.
  int64_t stages_per_rank;
  /// Throws a usage error for sizes that it does not take, and for unknown parameters.
  Schedule (*make)(const PipelineSizes& sizes, const ParamValues& params);
};

/// All schedules (generated; see Note [Generated tables]).
EntryTable<ScheduleEntry> schedules();

/// By "1f1b" or "1f1b:eager=true". Throws a usage error for an unknown name or parameter, and for
/// sizes that the schedule does not take.
Schedule make_schedule(const std::string& spec, const PipelineSizes& sizes);

/// As `most` below: there may be any number of stages on each rank.
inline constexpr int64_t kAnyNumber = std::numeric_limits<int64_t>::max();

/// For schedules: throws a usage error that names `schedule` unless there is at least one
/// micro-batch and rank, and the stages are `least` to `most` times the ranks, a whole number.
void require_sizes(std::string_view schedule,
                   const PipelineSizes& sizes,
                   int64_t least,
                   int64_t most);

}  // namespace muster::pipeline
