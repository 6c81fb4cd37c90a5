#include "muster/train/program/ask_flags.h"

#include <variant>

#include <CLI/CLI.hpp>

#include "muster/base/text.h"
#include "muster/program/line/parse.h"
#include "muster/program/line/said.h"
#include "muster/train/program/task_flags.h"

namespace muster::train {
namespace {

constexpr const char* kAskEpilogue =
    "Under `muster run` or torchrun each process is one rank, and each sample is seen\n"
    "once. Nothing in the run's folder is written.\n\n"
    "Exit codes: 0 done, 1 failed, 2 wrong use.";

void add_ask_flags(CLI::App& app, AskOptions& ask) {
  using program::add_value;
  add_value(app, "run", ask.run, "the run's folder")->type_name("DIR")->required();
  add_value(
      app,
      "--weights",
      ask.weights,
      "of which checkpoint: its folder, or its name in the run, step-N; ema: the last averages "
      "(--ema-decay) [the one that the run tests at its end]")
      ->type_name("last|best|ema|CHECKPOINT");
  add_value(app, "--split", ask.split, "which samples")
      ->type_name("test|train|validation")
      ->capture_default_str();
  add_value(app, "--batch-size", ask.batch_size, "samples per batch, on each rank")
      ->type_name("N")
      ->capture_default_str();
  add_value(app, "--workers", ask.workers, "loader threads per rank [-1: from cores and ranks]")
      ->type_name("N");
  add_value(app,
            "--device",
            ask.device,
            "where to compute; a kind alone: each rank on the device of its number")
      ->type_name("auto|cpu|cuda|cuda:N")
      ->capture_default_str();
  add_value(app, "--backend", ask.backend, "process group (muster list backends)")
      ->type_name("NAME|auto")
      ->capture_default_str();
}

}  // namespace

bool asks_run(std::span<const std::string> words) {
  return !words.empty() && (words[0] == "evaluate" || words[0] == "predict");
}

std::optional<int> read_ask_line(std::span<const std::string> words,
                                 const std::string& title,
                                 const std::vector<TaskProgram::Flag>& own,
                                 program::Console& console,
                                 TaskAskLine& line) {
  line.predicts = words[0] == "predict";
  const auto app = program::make_app(
      concat(title, ' ', words[0]),
      line.predicts ? "Write what the run's weights say of each sample, as CSV."
                    : "Measure the run's weights on a split of the program's data.",
      kAskEpilogue);
  add_ask_flags(*app, line.ask);
  if (line.predicts) {
    program::add_value(*app, "--output", line.output, "the CSV file; -: stdout")
        ->type_name("FILE")
        ->capture_default_str();
  } else {
    app->add_flag("--json", line.json, "print the numbers as one JSON object");
  }
  for (const TaskProgram::Flag& flag : own) add_own_flag(*app, flag);
  if (const auto over = program::parse(*app, words.subspan(1), console)) return over;
  line.said = program::said_options(*app);
  return std::nullopt;
}

}  // namespace muster::train
