// A training as a whole program: which folder, which checkpoint, which rank of which job, what a
// signal does, what a study hears.
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/distributed/process_group.h"
#include "muster/tensor/device/device_kinds.h"
#include "muster/train/checkpoints/checkpoint.h"
#include "muster/train/loop/fit.h"
#include "muster/train/loop/resolve.h"
#include "muster/train/plan/callbacks.h"
#include "muster/train/plan/options.h"
#include "muster/train/program/program_end.h"

namespace muster::train {

/// What is to be trained, and how a program tells of it. The members are called in this order.
class Program {
 public:
  virtual ~Program() = default;

  /// Options of the command line. --resume fills in what was not said; see take_over().
  virtual const FitOptions& options() const = 0;
  virtual void take_over(const Json& record) = 0;
  /// Opens the data, and says what will be done. Throws usage errors.
  virtual FitPlan plan(const Surroundings& around, bool is_resumed) = 0;
  /// runs/NAME is the folder of a run that was given none: "cnn-fashion-mnist".
  virtual std::string default_output() const = 0;
  virtual FitData data() = 0;
  virtual TaskMaker task(bool is_resumed) = 0;
  /// Sets hooks of its own, on every rank.
  virtual void add_hooks(FitCallbacks& /*callbacks*/) {}
  /// Rank 0: the folder is the run's.
  virtual void folder_ready(const std::filesystem::path& /*output*/, bool /*is_resumed*/) {}
};

/// How the program talks, on rank 0.
struct ProgramVoice {
  std::function<void(const FitPlan&)> explain;   ///< what --explain asks for
  std::function<void(const std::string&)> say;   ///< a line of the program: where it writes, …
  std::function<void(const std::string&)> note;  ///< a line of the training: an epoch's numbers
  std::function<void(const track::ProgressEvent&)> progress;
  std::function<void()> finish_progress;  ///< takes the bar away
  /// Ranks that are threads do not end though the run has failed: shows the error, and ends the process.
  std::function<void(const std::exception_ptr&)> end_with;
};

/// Runs it, alone or as one rank of the job that the environment names. The first SIGINT or SIGTERM
/// saves the state and ends the run, the second one kills. In a study's trial it reports each epoch,
/// goes on from where the tuner says, and ends when the tuner says so. A fast dev run writes to a
/// temporary folder that is removed at its end. `kinds` are those that --device may name. Throws as fit() and resolve_fit().
ProgramEnd run_program(Program& program,
                       const RunFlags& flags,
                       const ProgramVoice& voice,
                       std::vector<std::pair<std::string, std::string>> about,
                       const tensor::DeviceKinds& kinds = tensor::usual_devices());

/// The exit code of a program that a signal has ended in order.
inline constexpr int kInterrupted = 130;

/// Options of one start of a program, not of what it trains: the config.toml of a run leaves them out.
inline constexpr std::string_view kOfOneStart[] = {
    "output", "resume", "config", "explain", "json", "trace", "trace_steps"};

/// Where a run's numbers come from, for its page: the command line, as it was typed, and where and
/// when it was.
std::vector<std::pair<std::string, std::string>> run_facts(const std::string& command);

/// --explain: the lines of the plan, or one JSON object: the record that checkpoints hold, with
/// `title`, `machine_devices` and `remarks`.
void print_plan(const FitPlan& plan, bool json, std::ostream& out);

}  // namespace muster::train
