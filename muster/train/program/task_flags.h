// The command line of a TaskProgram.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/json.h"
#include "muster/program/config/config_file.h"
#include "muster/program/screen/console.h"
#include "muster/train/plan/options.h"
#include "muster/train/program/task_program.h"

namespace muster::train {

/// Its flags: those of `muster train` that are not about its models and data, and the program's own.
/// It stays where it is: the flags are written to it.
class TaskLine {
 public:
  /// `options` hold unless they are said; `title` is what the program was called with. `own` outlives
  /// this.
  TaskLine(std::string title,
           const std::string& help,
           const FitOptions& options,
           const std::vector<TaskProgram::Flag>& own);
  ~TaskLine();
  TaskLine(const TaskLine&) = delete;
  TaskLine& operator=(const TaskLine&) = delete;

  /// Reads the words behind the program's name, those of a --config file before them. An exit code if
  /// the program is over: --help. Throws a usage error for what is no flag or no value.
  std::optional<int> read(std::span<const std::string> words, program::Console& console);

  FitOptions options;
  RunFlags run;
  bool json = false;

  const std::string& title() const { return title_; }
  /// Options that the line or the config file has, as in a plan: "batch_size".
  std::vector<std::string> said() const;
  /// Writes the config file that says them again; see train::keep_config. `options` are what holds.
  void keep_config(const std::filesystem::path& run,
                   bool goes_on,
                   const std::function<void(const std::string&)>& note) const;
  /// With the place in the config file, where that has said what is refused.
  Error placed(const Error& error) const;

 private:
  void add_own(const TaskProgram::Flag& flag);

  std::string title_;
  FitOptions given_;  // what holds when nobody says anything
  std::unique_ptr<CLI::App> app_;
  std::filesystem::path config_;
  std::vector<std::string> paths_;  // options that are
  std::vector<program::ConfigKey> keys_;
  std::vector<program::ConfigPlace> places_;
};

/// A program's own flag.
void add_own_flag(CLI::App& app, const TaskProgram::Flag& flag);

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
