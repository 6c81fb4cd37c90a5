// The command line of `PROGRAM evaluate RUN` and `PROGRAM predict RUN`.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/program/screen/console.h"
#include "muster/train/plan/ask_options.h"
#include "muster/train/program/task_program.h"

namespace muster::train {

/// What such a line says.
struct TaskAskLine {
  bool predicts = false;
  AskOptions ask;
  std::filesystem::path output = "predictions.csv";  ///< of predict; -: stdout
  bool json = false;                                 ///< of evaluate
  std::vector<std::string> said;                     ///< own flags that the line has
};

/// Whether the words behind the program's name ask a run, rather than train one.
bool asks_run(std::span<const std::string> words);

/// Reads such words; asks_run() of them. `title` is what the program was called with. Writes to the
/// own flags that are said. An exit code if the program is over: --help. Throws a usage error for
/// what is no flag or no value.
std::optional<int> read_ask_line(std::span<const std::string> words,
                                 const std::string& title,
                                 const std::vector<TaskProgram::Flag>& own,
                                 program::Console& console,
                                 TaskAskLine& line);

}  // namespace muster::train
