#include "muster/train/program/task_flags.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include <CLI/CLI.hpp>

#include "muster/base/error.h"
#include "muster/base/number_rule.h"
#include "muster/base/text.h"

namespace muster::train {
namespace {

std::string flag_of(std::string_view option) {
  std::string flag = concat("--", option);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string option_of(std::string_view flag) {
  std::string option(flag.substr(flag.find_first_not_of('-')));
  std::replace(option.begin(), option.end(), '-', '_');
  return option;
}

Error bad_value(const std::string& flag, std::string_view rule, const std::string& text) {
  return usage_error(
      {.refused = flag, .rule = std::string(rule), .value = text.empty() ? "\"\"" : text});
}

void read_text(const std::string& flag, const std::string& text, int64_t& value) {
  const auto number = to_int(text);
  if (!number) throw bad_value(flag, "a whole number of 64 bits is needed", text);
  value = *number;
}

void read_text(const std::string& flag, const std::string& text, double& value) {
  const auto number = to_double(text);
  if (!number || !std::isfinite(*number)) throw bad_value(flag, number_rule(text), text);
  value = *number;
}

template <class T>
void read_text(const std::string& flag, const std::string& text, std::optional<T>& value) {
  T read{};
  read_text(flag, text, read);
  value = read;
}

void read_text(const std::string& flag, const std::string& text, LearningRate& value) {
  if (is_lr_search(text)) {
    value = {};
    value.search = text;
    return;
  }
  double rate = 0;
  read_text(flag, text, rate);
  value = rate;
}

void read_text(const std::string&, const std::string& text, std::string& value) { value = text; }
void read_text(const std::string&, const std::string& text, std::filesystem::path& value) {
  value = text;
}

std::string shown(int64_t value) { return std::to_string(value); }
std::string shown(double value) { return shortest(value); }
std::string shown(const std::string& value) { return value; }
std::string shown(const std::filesystem::path& value) { return value.string(); }
std::string shown(const LearningRate& rate) {
  return rate.value ? shown(*rate.value) : rate.search;
}
template <class T>
std::string shown(const std::optional<T>& value) {
  return value ? shown(*value) : "";
}

/// `kind` is what help calls the value; `shows`: help says the default.
template <class T>
void add(CLI::App& app,
         const std::string& flag,
         T& value,
         const std::string& help,
         std::string_view kind,
         bool shows) {
  if constexpr (std::is_same_v<T, bool>) {
    app.add_flag(flag, value, help);
  } else {
    const auto read = [flag, &value](const CLI::results_t& given) {
      read_text(flag, given.front(), value);
      return true;
    };
    CLI::Option* option =
        app.add_option(flag, read, help, false, [&value] { return shown(value); });
    option->type_name(std::string(kind));
    if (shows) option->capture_default_str();
  }
}

std::string_view kind_of(const TaskProgram::Value& value) {
  constexpr std::string_view kKinds[] = {"N", "X", "", "TEXT", "PATH"};
  return kKinds[value.index()];
}

/// In our own words.
[[noreturn]] void refuse(const CLI::App& app,
                         const std::vector<std::string>& words,
                         const CLI::ParseError& error) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    if (!name.starts_with("--") || std::find(known.begin(), known.end(), name) != known.end())
      continue;
    throw usage_error({.refused = "unknown flag " + name, .hint = suggestion(name, known)});
  }
  throw usage_error({.refused = error.what(), .hint = concat("see `", app.get_name(), " --help`")});
}

void add_own(CLI::App& app, const std::vector<TaskProgram::Flag>& own) {
  for (const TaskProgram::Flag& flag : own) {
    std::visit(
        [&](auto* value) { add(app, flag.name, *value, flag.help, kind_of(flag.value), true); },
        flag.value);
  }
}

std::vector<std::string> said_of(const CLI::App& app) {
  std::vector<std::string> said;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0 && !option->get_lnames().empty())
      said.push_back(option_of(option->get_lnames()[0]));
  }
  return said;
}

/// Parses, or returns the help that was asked for.
std::string parse_words(CLI::App& app, const std::vector<std::string>& words) {
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::ParseError& error) {
    refuse(app, words, error);
  }
  return "";
}

}  // namespace

TaskLine read_task_line(const std::vector<std::string>& words,
                        const std::string& program,
                        const std::string& help,
                        const FitOptions& options,
                        const std::vector<TaskProgram::Flag>& own) {
  TaskLine line{.options = options};
  CLI::App app(help, program);
  add_own(app, own);
  visit_options(line.options, [&](const OptionInfo& info, auto& value) {
    add(app, flag_of(info.name), value, std::string(info.help), info.value, info.show_default);
  });
  visit_run_flags(line.run, [&](const OptionInfo& info, auto& value) {
    add(app, flag_of(info.name), value, std::string(info.help), info.value, info.show_default);
  });
  line.help = parse_words(app, words);
  line.said = said_of(app);
  return line;
}

bool asks_run(const std::vector<std::string>& words) {
  return !words.empty() && (words[0] == "evaluate" || words[0] == "predict");
}

TaskAskLine read_ask_line(const std::vector<std::string>& words,
                          const std::string& program,
                          const std::vector<TaskProgram::Flag>& own) {
  TaskAskLine line{.predicts = words.at(0) == "predict"};
  AskOptions& ask = line.ask;
  CLI::App app(line.predicts ? "Writes what the run's weights say of each sample, as CSV."
                             : "Measures the run's weights on a split of the program's data.",
               concat(program, ' ', words[0]));
  add(app, "run", ask.run, "the run's folder", "DIR", false);
  add(app,
      "--weights",
      ask.weights,
      "of which checkpoint [the one that the run tests at its end]",
      "last|best|CHECKPOINT",
      false);
  add(app, "--split", ask.split, "which samples", "test|train|validation", true);
  add(app, "--batch-size", ask.batch_size, "samples per batch, on each rank", "N", true);
  add(app,
      "--workers",
      ask.workers,
      "loader threads per rank [-1: from cores and ranks]",
      "N",
      false);
  add(app, "--backend", ask.backend, "process group", "NAME|auto", true);
  if (line.predicts) {
    add(app, "--output", line.output, "the CSV file; -: stdout", "FILE", true);
  } else {
    add(app, "--json", line.json, "print the numbers as one JSON object", "", false);
  }
  add_own(app, own);
  line.help = parse_words(app, {words.begin() + 1, words.end()});
  line.said = said_of(app);
  if (line.help.empty() && ask.run.empty()) {
    throw usage_error({.refused = concat(program, ' ', words[0]),
                       .rule = "it names the folder of a run",
                       .hint = concat("say ", program, ' ', words[0], " runs/NAME")});
  }
  return line;
}

Json own_values(const std::vector<TaskProgram::Flag>& own) {
  Json values = Json::object();
  for (const TaskProgram::Flag& flag : own) {
    std::visit(
        [&](auto* value) {
          if constexpr (std::is_same_v<decltype(value), std::filesystem::path*>)
            values[option_of(flag.name)] = value->string();
          else
            values[option_of(flag.name)] = *value;
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
    const std::string name = option_of(flag.name);
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
