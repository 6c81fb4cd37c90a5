// What each rank of one attempt is given: its place in the job and its environment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/launch/job/job.h"

namespace muster::launch {

/// One start of all ranks. A restart is a new attempt with a port of its own.
struct AttemptPlan {
  int64_t restart_count = 0;
  int64_t master_port = 0;           ///< resolved: never 0
  std::filesystem::path log_folder;  ///< …/attempt_<n>; empty if no logs are kept
  std::string job_key;               ///< MUSTER_JOB_KEY; empty: as it is inherited
};

/// The global rank of a local one.
inline int64_t global_rank(const JobSpec& spec, int64_t local_rank) {
  return spec.node_rank * spec.nproc_per_node + local_rank;
}

/// Where a rank may leave its error report; empty if no logs are kept.
std::filesystem::path error_file(const AttemptPlan& plan, int64_t local_rank);

/// Where it is marked which ranks of this machine have ended (see muster/base/ended_ranks.h); empty if
/// no logs are kept.
std::filesystem::path ended_folder(const AttemptPlan& plan);

/// "NAME=value" strings for a rank: `inherited` (the launcher's own environment, same form) with
/// everything replaced that torchrun sets, and
///   OMP_NUM_THREADS=1      with several ranks per node, unless it is set: torchrun's rule
///   PYTHONUNBUFFERED=1     unless it is set, so that the last lines of a killed Python rank are
///                          not lost
///   MUSTER_PROGRESS_FD     for rank 0 only
///   MUSTER_ENDED_RANKS     see muster/base/ended_ranks.h
///   MUSTER_JOB_KEY         see muster/base/job_key.h
/// Pure.
std::vector<std::string> rank_environment(const JobSpec& spec,
                                          const AttemptPlan& plan,
                                          int64_t local_rank,
                                          std::span<const std::string> inherited);

/// This process's environment in that form.
std::vector<std::string> inherited_environment();

}  // namespace muster::launch
