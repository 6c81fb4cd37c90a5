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
  program::add_value(app, "run", ask.run, "the run's folder")->type_name("DIR")->required();
  visit_ask_options(ask, /*names_data=*/false, [&](const AskInfo& info, auto& value) {
    program::add_option_flag(app, info, value);
  });
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
