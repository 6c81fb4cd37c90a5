// What a trial's process finds in its environment, and its params file. Private to the room.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "muster/tune/executor.h"
#include "muster/tune/study_spec.h"

namespace muster::tune {

/// Where an attempt reports to.
struct TrialChannel {
  std::string address, token;
  std::filesystem::path params_file, report_file;
};

/// "NAME=value": `inherited` (of the tuner), over it the study's own variables, over these those of
/// Note [Trial protocol]; none of an outer study's. Besides, as Ray Tune does:
///   CUDA_VISIBLE_DEVICES   the devices of this trial, if it has any
///   OMP_NUM_THREADS        its cpus, unless set: trials side by side do not fight for cores
///   PYTHONUNBUFFERED=1     unless set, so that tagged lines come when they are printed
/// Pure.
std::vector<std::string> trial_environment(const ExecutorContext& context,
                                           const AttemptPlan& plan,
                                           const TrialChannel& channel,
                                           std::span<const std::string> inherited);

/// 128 bits from the kernel, in hexadecimal. Throws an environment error.
std::string make_token();

/// A new folder for sockets and pipes that only this user may enter: in XDG_RUNTIME_DIR, TMPDIR or
/// /tmp, whichever is short enough for a socket's name. Throws an environment error.
std::filesystem::path make_runtime_folder();

}  // namespace muster::tune
