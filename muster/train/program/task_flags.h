// The command line of a TaskProgram.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/json.h"
#include "muster/train/plan/ask_options.h"
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

/// `PROGRAM evaluate RUN` and `PROGRAM predict RUN`.
struct TaskAskLine {
  bool predicts = false;
  AskOptions ask;
  std::filesystem::path output = "predictions.csv";  ///< of predict; -: stdout
  bool json = false;                                 ///< of evaluate
  std::vector<std::string> said;                     ///< own flags that the line has
  std::string help;                                  ///< as TaskLine's
};

/// Whether the words behind the program's name ask a run, rather than train one.
bool asks_run(const std::vector<std::string>& words);

/// Reads such words; asks_run() of them. Writes to the own flags that are said. Throws as
/// read_task_line().
TaskAskLine read_ask_line(const std::vector<std::string>& words,
                          const std::string& program,
                          const std::vector<TaskProgram::Flag>& own);

/// Under which a run's record has the own flags' values, and the program that made it.
inline constexpr const char* kOwnFlags = "own_flags";
inline constexpr const char* kOwnProgram = "program";

/// The own flags' values: {"hidden": 64}.
Json own_values(const std::vector<TaskProgram::Flag>& own);

/// Takes those of a checkpoint. Throws a usage error for one that was said with another value.
void take_own_values(const Json& values,
                     const std::vector<std::string>& said,
                     const std::vector<TaskProgram::Flag>& own);

}  // namespace muster::train
