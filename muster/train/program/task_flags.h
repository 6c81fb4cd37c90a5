// The command line of a TaskProgram.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/base/json.h"
#include "muster/train/plan/options.h"
#include "muster/train/program/task_program.h"

namespace muster::train {

struct TaskLine {
  FitOptions options;
  RunFlags run;
  std::vector<std::string> said;  ///< options that the line has, as in a plan: "batch_size"
  std::string help;               ///< of --help, which is all that is wanted then; else empty
};

/// Reads the words behind the program's name: `options` are those that hold unless they are said.
/// Writes to the own flags. Throws a usage error for what is no flag or no value.
TaskLine read_task_line(const std::vector<std::string>& words,
                        const std::string& program,
                        const std::string& help,
                        const FitOptions& options,
                        const std::vector<TaskProgram::Flag>& own);

/// The own flags' values: {"hidden": 64}.
Json own_values(const std::vector<TaskProgram::Flag>& own);

/// Takes those of a checkpoint. Throws a usage error for one that was said with another value.
void take_own_values(const Json& values,
                     const std::vector<std::string>& said,
                     const std::vector<TaskProgram::Flag>& own);

}  // namespace muster::train
