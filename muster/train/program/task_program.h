// main() of a program that trains a task of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "muster/tensor/device/device_kinds.h"
#include "muster/train/loop/fit.h"
#include "muster/train/plan/options.h"

namespace muster::program {
class Console;
}

namespace muster::train {

/// Functions that a training calls on the way; see FitCallbacks, whose hooks these are.
struct TaskHooks {
  std::function<void(const HookPlace&)> epoch_began;
  std::function<void(const StepEnd&)> step_ended;
  std::function<void(const EvaluationEnd&)> evaluated;
  std::function<void(const CheckpointEnd&)> saved;
};

/// What a program trains.
struct TaskParts {
  FitData data;
  TaskMaker task;
  TaskHooks hooks = {};
};

/// A program with the command line of `muster train`, for a task of its own: `--epochs`, `--lr`,
/// `--resume`, `--config`, …, its help and errors, and its progress bar; alone, on the ranks of
/// `muster run` or torchrun, and in the trials of a study.
///
///     int main(int argc, char** argv) {
///       int64_t hidden = 32;
///       muster::train::TaskProgram program("regression", "Fits a network to made-up rows.");
///       program.flag("--hidden", &hidden, "units of the hidden layer");
///       return program.run(argc, argv, [&] {
///         return muster::train::TaskParts{.data = make_data(), .task = [=] {
///           return std::make_unique<Regression>(hidden); }};
///       });
///     }
class TaskProgram {
 public:
  /// `name` is that of the run's folder, runs/NAME, and of its page; `help` is one line.
  TaskProgram(std::string name, std::string help);

  /// What holds unless the command line says otherwise. Change them before run().
  FitOptions options;

  /// What --device may name besides the CPU. muster::testing::kFakeDevices adds fake devices.
  tensor::DeviceKinds devices = tensor::usual_devices();

  /// A flag of the program's own: whole numbers, numbers, texts, paths; a bool is a switch. `value`
  /// is written by run() and outlives it. A resumed run has it from its checkpoint and refuses
  /// another.
  using Value = std::variant<int64_t*, double*, bool*, std::string*, std::filesystem::path*>;
  void flag(const std::string& name, Value value, const std::string& help);

  /// Trains, validates, tests; with the first word `evaluate` or `predict` asks a run of this program,
  /// as the program muster does for its own: `PROGRAM evaluate RUN`. `make` is called once the flags
  /// are known. The last line on stdout is the test's loss and metrics, or with --json one object with
  /// the same. Returns main()'s exit code: 0 trained and tested, 1 failed, 2 wrong
  /// use, 130 interrupted with the state saved. Throws nothing.
  int run(int argc, const char* const* argv, const std::function<TaskParts()>& make);

  struct Flag {
    std::string name;  ///< "--hidden"
    Value value;
    std::string help;
  };

 private:
  int ask_run(const std::string& title,
              std::span<const std::string> words,
              const std::function<TaskParts()>& make,
              program::Console& console);
  int run_task(const std::string& title,
               std::span<const std::string> words,
               const std::function<TaskParts()>& make,
               program::Console& console);

  std::string name_, help_;
  std::vector<Flag> flags_;
};

}  // namespace muster::train
