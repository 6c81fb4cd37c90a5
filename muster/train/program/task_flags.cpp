#include "muster/train/program/task_flags.h"

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>

#include <CLI/CLI.hpp>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/program/line/parse.h"
#include "muster/program/line/said.h"
#include "muster/train/plan/option_infos.h"
#include "muster/train/program/run_program.h"
#include "muster/train/program/told_words.h"

namespace muster::train {
namespace {

constexpr const char* kEpilogue =
    "Under `muster run` or torchrun each process is one rank; the batch size is the\n"
    "global one and is divided by the ranks. The folder given by --output gets\n"
    "config.json, config.toml, metrics.csv and .jsonl, TensorBoard events,\n"
    "checkpoints/step-N, latest, best, and at the end index.html with the curves.\n"
    "The last line on stdout is the test's loss and metrics.\n\n"
    "`evaluate RUN` and `predict RUN` in place of flags ask a run that is there.\n\n"
    "Exit codes: 0 trained and tested, 1 failed (a run that diverged, too), 2 wrong\n"
    "use, 130 interrupted with the state saved.";

constexpr std::string_view kTaskSpecs[] = {
    "strategy", "comm-hook", "optimizer", "lr-schedule", "precision"};
constexpr program::ConfigOwner kTaskOwners[] = {{"strategy", "strategy"},
                                                {"comm-hook", "communication hook"},
                                                {"optimizer", "optimizer"},
                                                {"lr-schedule", "lr schedule"},
                                                {"backend", "backend"}};
std::string_view kind_of(const TaskProgram::Value& value) {
  constexpr std::string_view kKinds[] = {"N", "X", "", "TEXT", "PATH"};
  return kKinds[value.index()];
}

template <class T>
constexpr bool kIsPath = std::is_same_v<T, std::filesystem::path> ||
                         std::is_same_v<T, std::optional<std::filesystem::path>>;

}  // namespace

TaskLine::TaskLine(std::string title,
                   const std::string& help,
                   const FitOptions& given,
                   const std::vector<TaskProgram::Flag>& own)
    : options(given),
      title_(std::move(title)),
      given_(given),
      app_(program::make_app(title_, help, kEpilogue)) {
  for (const TaskProgram::Flag& flag : own) add_own(flag);
  const auto add = [&](const OptionInfo& info, auto& value) {
    program::add_option_flag(*app_, info, value);
    if (kIsPath<std::remove_reference_t<decltype(value)>>)
      paths_.push_back(program::flag_of_option(info.name).substr(2));
  };
  visit_options(options, add);
  visit_run_flags(run, add);
  program::add_value(
      *app_, "--config", config_, "read flags from a TOML file; flags given here win")
      ->type_name("FILE");
  app_->add_flag("--json", json, "print the result as one JSON object");
  const std::vector<std::string_view> paths(paths_.begin(), paths_.end());
  keys_ = program::config_keys(*app_, {.specs = kTaskSpecs, .paths = paths});
}

TaskLine::~TaskLine() = default;

void add_own_flag(CLI::App& app, const TaskProgram::Flag& flag) {
  struct Info {
    std::string_view name, value, help;
    bool show_default = true;
  };
  const std::string option = program::option_of_flag(flag.name);
  const Info info{.name = option, .value = kind_of(flag.value), .help = flag.help};
  std::visit([&](auto* value) { program::add_option_flag(app, info, *value); }, flag.value);
}

void TaskLine::add_own(const TaskProgram::Flag& flag) {
  add_own_flag(*app_, flag);
  if (std::holds_alternative<std::filesystem::path*>(flag.value)) {
    paths_.push_back(program::flag_of_option(program::option_of_flag(flag.name)).substr(2));
  }
}

std::optional<int> TaskLine::read(std::span<const std::string> words, program::Console& console) {
  return program::parse(*app_, program::with_config(words, keys_, &places_), console);
}

std::vector<std::string> TaskLine::said() const {
  std::vector<std::string> names = program::said_options(*app_);
  std::ranges::move(program::said_off(*app_, places_), std::back_inserter(names));
  return names;
}

void TaskLine::keep_config(const std::filesystem::path& run,
                           bool goes_on,
                           const std::function<void(const std::string&)>& note) const {
  const auto told = program::said_words(*app_, kOfOneStart);
  train::keep_config(run, goes_on, told, options, given_, keys_, note);
}

Error TaskLine::placed(const Error& error) const {
  return program::placed(error, places_, kTaskOwners);
}

Json own_values(const std::vector<TaskProgram::Flag>& own) {
  Json values = Json::object();
  for (const TaskProgram::Flag& flag : own) {
    std::visit(
        [&](auto* value) {
          if constexpr (std::is_same_v<decltype(value), std::filesystem::path*>)
            values[program::option_of_flag(flag.name)] = value->string();
          else
            values[program::option_of_flag(flag.name)] = *value;
        },
        flag.value);
  }
  return values;
}

void take_own_values(const Json& values,
                     const std::vector<std::string>& said,
                     const std::vector<TaskProgram::Flag>& own) {
  const Json now = own_values(own);
  std::vector<std::string> differences;
  for (const TaskProgram::Flag& flag : own) {
    const std::string name = program::option_of_flag(flag.name);
    const auto before = values.find(name);
    if (before == values.end() || *before == now.at(name)) continue;
    if (std::find(said.begin(), said.end(), name) != said.end()) {
      differences.push_back(
          concat(name, " was ", json_text(*before), ", now ", json_text(now.at(name))));
      continue;
    }
    try {
      std::visit(
          [&](auto* value) {
            using T = std::remove_pointer_t<decltype(value)>;
            if constexpr (std::is_same_v<T, std::filesystem::path>)
              *value = before->get<std::string>();
            else
              *value = before->get<T>();
          },
          flag.value);
    } catch (const Json::exception&) {
      differences.push_back(concat(name, " was ", json_text(*before), ", of another kind"));
    }
  }
  if (differences.empty()) return;
  throw usage_error({.refused = "--resume",
                     .rule = "what shapes the numbers stays as it was",
                     .value = join(differences, "; "),
                     .hint = "leave these flags away, or start a new run"});
}

}  // namespace muster::train
