// All that an attempt's process needs before it starts: program, environment, files. Private to the
// room.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "muster/tune/core/study_spec.h"
#include "muster/tune/execute/executor.h"
#include "muster/tune/execute/local_trial.h"

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

/// The plan as a start: the command with its parameters, found in PATH or below the study's working
/// folder; the trial's folder and its params.json, which are made. Throws a usage error for a
/// program that cannot be run, an environment error if a file cannot be written.
LocalTrialStart prepare(const ExecutorContext& context,
                        const AttemptPlan& plan,
                        const std::filesystem::path& runtime_folder,
                        const std::string& token,
                        std::span<const std::string> inherited);

/// Throws a usage error for a command that could start no trial with these values: its program is
/// not there, is a folder or may not be executed; or it is an interpreter's and the script is not
/// there.
void check_program(const StudySpec& spec, const Values& values);

/// The socket of the tuner in its runtime folder.
std::string socket_in(const std::filesystem::path& runtime_folder);

/// 128 bits from the kernel, in hexadecimal. Throws an environment error.
std::string make_token();

/// A new folder for sockets and pipes that only this user may enter: in XDG_RUNTIME_DIR, TMPDIR or
/// /tmp, whichever is short enough for a socket's name. Throws an environment error.
std::filesystem::path make_runtime_folder();

}  // namespace muster::tune
