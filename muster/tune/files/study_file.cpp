#include "muster/tune/files/study_file.h"

#include <algorithm>
#include <map>
#include <set>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/given.h"
#include "muster/base/text.h"
#include "muster/tune/core/stop_rules.h"
#include "muster/tune/files/toml_table.h"
#include "muster/tune/files/units.h"
#include "muster/tune/space/command_template.h"

namespace muster::tune {
namespace fs = std::filesystem;
namespace {

class StudyReader {
 public:
  StudyReader(const fs::path& file, const toml::table& table, std::span<const Parameter> more)
      : file_(file), top_(file, table, ""), more_(more.begin(), more.end()) {}

  StudySpec read() {
    names();
    numbers();
    strategies();
    trials();
    if (auto resources = top_.table("resources_per_trial")) read_resources(*resources);
    if (auto machine = top_.table("machine")) read_machine(*machine);
    if (auto failures = top_.table("failures")) read_failures(*failures);
    if (auto plateau = top_.table("plateau")) read_plateau(*plateau);
    // Before what follows from a key that is misspelt: {lr} is no parameter of [spce].
    for (const char* key : {"space", "points_to_evaluate", "command"}) top_.find(key);
    top_.refuse_unknown();
    if (top_.find("metric") != nullptr && top_.find("mode") == nullptr)
      top_.refuse("metric", "mode = \"min\" or \"max\" says which end of it is the better one");
    read_space();
    read_points();
    read_command();
    spec_.places[std::string(kWholeFile)] = top_.place();
    for (const auto& [name, place] : places_) spec_.places[place_key(name)] = place;
    for (const TomlItem& item : top_.items()) {
      spec_.places[item.key] = top_.place(item);
      if (item.key.ends_with("_s"))  // durations: `ask_lease_s` says the same as `ask_lease`
        spec_.places[item.key.substr(0, item.key.size() - 2)] = top_.place(item);
    }
    return std::move(spec_);
  }

 private:
  fs::path beside(const std::string& path) const {
    return (file_.parent_path() / path).lexically_normal();
  }

  /// What `read` refuses is refused as the key's.
  template <class Read>
  auto located(TomlTable& table, std::string_view key, Read&& read) {
    try {
      return read();
    } catch (const Error& error) {
      const ErrorText& said = error.text();
      const std::string rule =
          said.refused == key ? said.rule : concat(said.refused, ": ", said.rule);
      table.refuse(key, said.rule.empty() ? said.refused : rule, said.value, said.hint);
    }
  }

  void names() {
    spec_.name = top_.text("name").value_or(file_.stem().string());
    if (spec_.name.find_first_of("/\n\r\t") != std::string::npos || spec_.name == "." ||
        spec_.name == "..")
      top_.refuse("name", "it names a file, so it has no slash and is one line", spec_.name);
    spec_.storage = beside(top_.text("storage").value_or(spec_.name + ".db"));
    set_if_given(spec_.metric, top_.text("metric"));
    const auto mode = top_.text("mode");
    if (mode) spec_.mode = located(top_, "mode", [&] { return parse_mode(*mode); });
    read_goals(mode.has_value());
    if (const auto scope = top_.text("scope"))
      spec_.scope = located(top_, "scope", [&] { return parse_scope(*scope); });
  }

  /// objectives = ["max accuracy", "min step_s"], in place of metric and mode; constraints.
  void read_goals(bool has_mode) {
    if (const TomlItem* item = top_.find("objectives")) {
      if (has_mode || !spec_.metric.empty())
        top_.refuse(*item, "a study has objectives, or metric and mode");
      std::vector<Objective> objectives;
      for (const std::string& text : top_.texts("objectives"))
        objectives.push_back(parse_objective(text, top_.place(*item)));
      if (objectives.empty()) top_.refuse(*item, "it has one at least", "", "[\"max accuracy\"]");
      set_objectives(spec_, std::move(objectives));
    }
    if (const TomlItem* item = top_.find("constraints")) {
      for (const std::string& text : top_.texts("constraints"))
        spec_.goals.constraints.push_back(parse_constraint(text, top_.place(*item)));
    }
  }

  void numbers() {
    set_if_given(spec_.num_samples, top_.whole("num_samples", -1));
    if (spec_.num_samples == 0)
      top_.refuse("num_samples", "it is at least 1, or -1 for no end", "0");
    set_if_given(spec_.max_concurrent, top_.whole("max_concurrent", 0));
    set_if_given(spec_.time_budget_s, top_.duration_s("time_budget"));
    set_if_given(spec_.storage_patience_s, top_.duration_s("storage_patience"));
    set_if_given(spec_.trial_timeout_s, top_.duration_s("trial_timeout"));
    set_if_given(spec_.report_timeout_s, top_.duration_s("report_timeout"));
    set_if_given(spec_.stop_grace_s, top_.duration_s("stop_grace"));
    set_if_given(spec_.kill_grace_s, top_.duration_s("kill_grace"));
    set_if_given(spec_.ask_lease_s, top_.duration_s("ask_lease"));
    set_if_given(spec_.nan_is_failure, top_.truth("nan_is_failure"));
    set_if_given(spec_.keep_checkpoints, top_.whole("keep_checkpoints", 0));
    set_if_given(spec_.ray_files, top_.truth("ray_files"));
    set_if_given(spec_.tensorboard, top_.truth("tensorboard"));
    set_if_given(spec_.durable, top_.truth("durable"));
  }

  void strategies() {
    if (const auto seed = top_.whole("seed", 0)) spec_.seed = static_cast<uint64_t>(*seed);
    spec_.searcher = strategy("searcher", spec_.searcher);
    spec_.scheduler = strategy("scheduler", spec_.scheduler);
    spec_.executor = strategy("executor", spec_.executor);
    if (const TomlItem* stop = top_.find("stop")) {
      const bool one = stop->node->is_string();
      const auto rules = one ? std::vector{*top_.text("stop")} : top_.texts("stop");
      for (const std::string& rule : rules)
        spec_.stop.push_back(parse_stop_criterion(rule, top_.place(*stop) + ": stop"));
    }
  }

  /// "asha:max_t=10" of a text or of a table with `type`.
  std::string strategy(const std::string& key, const std::string& otherwise) {
    const TomlItem* item = top_.find(key);
    if (item == nullptr) return otherwise;
    if (item->node->is_string()) return *top_.text(key);
    auto table = top_.table(key);
    const bool is_searcher = key == "searcher";
    if (is_searcher) read_seed(*table);
    const auto type = table->text("type");
    if (type && (type->find_first_of(":,") != std::string::npos || trim(*type) != *type))
      table->refuse("type", "it is a name, without : and ,", *type);
    std::vector<std::string> params;
    for (const TomlItem& one : table->items()) {
      if (one.key == "type" || (is_searcher && one.key == "seed")) continue;
      params.push_back(param(*table, one));
    }
    if (!type && !params.empty())
      top_.refuse(key, concat("type = \"…\" says which ", key, " it is"));
    const std::string name = type.value_or(otherwise);
    return params.empty() ? name : name + ':' + join(params, ",");
  }

  void read_seed(TomlTable& searcher) {
    const auto seed = searcher.whole("seed", 0);
    if (!seed) return;
    if (top_.find("seed") != nullptr) searcher.refuse("seed", "the seed is given once");
    spec_.seed = static_cast<uint64_t>(*seed);
  }

  static std::string param(const TomlTable& table, const TomlItem& item) {
    if (item.key.empty() || item.key.find_first_of(",= \t\r\n") != std::string::npos)
      table.refuse(item, "a parameter is a name without blanks, , and =");
    std::vector<std::string> parts;
    if (const toml::array* array = item.node->as_array()) {
      for (const toml::node& node : *array) parts.push_back(value_text(table.scalar(item, node)));
      if (parts.empty()) table.refuse(item, "a list has one item at least");
    } else {
      parts.push_back(value_text(table.scalar(item, *item.node)));
    }
    const std::string text = join(parts, "+");
    // These letters separate the parts of "asha:max_t=10,grace_period=1", which knows no quotes.
    if (text.find(',') != std::string::npos || trim(text) != text)
      table.refuse(item, "no comma in it, no blanks around it", text);
    return item.key + '=' + text;
  }

  void trials() {
    spec_.working_folder = beside(top_.text("working_folder").value_or("."));
    if (const auto folder = top_.text("trial_folder")) spec_.trial_folder = beside(*folder);
    set_if_given(spec_.constant_grid_search, top_.truth("constant_grid_search"));
    if (const auto environment = top_.table("environment")) {
      for (const TomlItem& item : environment->items()) {
        if (item.key.empty() || item.key.find_first_of(std::string_view("=\0", 2)) != item.key.npos)
          environment->refuse(item, "a variable has a name without =");
        spec_.environment[item.key] = value_text(environment->scalar(item, *item.node));
      }
    }
  }

  void read_resources(TomlTable& table) {
    Resources& resources = spec_.resources_per_trial;
    set_if_given(resources.cpu, table.number("cpu", 0));
    set_if_given(resources.gpu, table.number("gpu", 0));
    const auto bytes = table.whole("memory_bytes", 0);
    if (bytes) resources.memory_bytes = static_cast<uint64_t>(*bytes);
    if (const auto memory = table.text("memory")) {
      if (bytes) table.refuse("memory", "memory and memory_bytes are the same");
      const auto amount = bytes_of(*memory);
      if (!amount) table.refuse("memory", "it is an amount like \"512 MiB\" or \"2GiB\"", *memory);
      resources.memory_bytes = *amount;
    }
    if (auto custom = table.table("custom")) {
      for (const TomlItem& item : custom->items())
        resources.custom[item.key] = *custom->number(item.key, 0);
    }
    table.refuse_unknown();
  }

  /// What this machine has that cannot be seen, for resources_per_trial.custom.
  void read_machine(TomlTable& table) {
    if (auto custom = table.table("custom")) {
      for (const TomlItem& item : custom->items())
        spec_.machine_custom[item.key] = *custom->number(item.key, 0);
    }
    table.refuse_unknown();
  }

  static void read_policy(TomlTable& table, FailurePolicy& policy) {
    set_if_given(policy.backoff_s, table.duration_s("backoff"));
    set_if_given(policy.backoff_factor, table.number("backoff_factor", 1));
    set_if_given(policy.from_checkpoint, table.truth("from_checkpoint"));
  }

  void read_failures(TomlTable& table) {
    FailurePolicy all;
    set_if_given(all.retries, table.whole("max_failures", -1));
    set_if_given(spec_.fail_fast, table.truth("fail_fast"));
    set_if_given(spec_.give_up_after, table.whole("give_up_after", 0));
    read_policy(table, all);
    for (size_t failure = 1; failure < spec_.failures.size(); ++failure) {
      FailurePolicy& policy = spec_.failures[failure];
      policy = all;
      auto one = table.table(name_of(static_cast<Failure>(failure)));
      if (!one) continue;
      set_if_given(policy.retries, one->whole("retries", -1));
      read_policy(*one, policy);
      one->refuse_unknown();
    }
    table.refuse_unknown();
  }

  void read_plateau(TomlTable& table) {
    set_if_given(spec_.plateau.patience, table.whole("patience", 0));
    set_if_given(spec_.plateau.min_delta, table.number("min_delta", 0));
    set_if_given(spec_.plateau.grace_period, table.whole("grace_period", 0));
    table.refuse_unknown();
  }

  void read_space() {
    std::vector<Parameter> parameters;
    if (auto table = top_.table("space")) read_group(*table, "", parameters);
    parameters = merge_parameters(parameters, more_);
    for (const Parameter& parameter : more_) places_.erase(parameter.name);
    try {
      spec_.space = Space(std::move(parameters));
    } catch (const Error& error) {  // it begins with the parameter's name
      ErrorText said = error.text();
      for (const auto& [name, place] : places_) {
        if (said.refused.starts_with(concat("parameter \"", name, '"'))) {
          said.refused = concat(place, ": ", said.refused);
          throw Error(error.kind(), said);
        }
      }
      said.refused = concat(more_.empty() ? top_.place() : "--param", ": ", said.refused);
      throw Error(error.kind(), said);
    }
  }

  void read_group(const TomlTable& group,
                  const std::string& prefix,
                  std::vector<Parameter>& parameters) {
    for (const TomlItem& item : group.items()) {
      const std::string name = prefix + item.key;
      const toml::table* table = item.node->as_table();
      if (table != nullptr && !table->contains("dist") && !table->contains("value")) {
        if (const toml::node* when = table->get("when"); when != nullptr && when->is_string())
          group.refuse(item,
                       "a parameter with `when` says its domain by `dist`, or its `value`",
                       "",
                       "{dist = \"uniform(0, 1)\", when = \"optimizer == 'sgd'\"}");
        read_group(
            TomlTable(file_, *table, concat("space.", name), item.at), name + '.', parameters);
        continue;
      }
      places_[name] = group.place(item);
      parameters.push_back(table == nullptr ? parameter(group, item, name)
                                            : conditional(item, *table, name));
    }
  }

  Parameter parameter(const TomlTable& group, const TomlItem& item, const std::string& name) {
    if (item.node->is_array())
      group.refuse(item,
                   "a list is no domain",
                   "",
                   "\"choice(2, 4, 8)\" draws one of them, \"grid_search(2, 4, 8)\" tries each");
    const Value value = group.scalar(item, *item.node);
    if (!value.is_text()) return {.name = name, .domain = value};
    return {.name = name,
            .domain = Domain::parse(value.as_text(),
                                    concat(group.place(item), ": parameter \"", name, '"'))};
  }

  /// {dist = "uniform(0.8, 0.99)", when = "optimizer == 'sgd'"}
  Parameter conditional(const TomlItem& of, const toml::table& node, const std::string& name) {
    TomlTable table(file_, node, concat("space.", name), of.at);
    const TomlItem* dist = table.find("dist");
    const TomlItem* value = table.find("value");
    if (dist != nullptr && value != nullptr) table.refuse(*value, "a parameter has dist or value");
    Parameter out = value == nullptr
                        ? parameter(table, *dist, name)
                        : Parameter{.name = name, .domain = table.scalar(*value, *value->node)};
    out.when = table.text("when").value_or("");
    table.refuse_unknown();
    places_[name] = place_of(file_, of.at);
    return out;
  }

  void read_points() {
    const TomlItem* item = top_.find("points_to_evaluate");
    const toml::array* points = top_.list("points_to_evaluate");
    if (points == nullptr) return;
    for (const toml::node& node : *points) {
      const toml::table* table = node.as_table();
      if (table == nullptr)
        top_.refuse(*item, "it is a list of tables", "", "[{lr = 0.01, l1 = 64}]");
      std::map<std::string, Value> point;
      flatten(TomlTable(file_, *table, item->key, item->at), "", point);
      located(top_, item->key, [&] { return spec_.space.point_of(point); });
      spec_.points_to_evaluate.push_back(std::move(point));
    }
  }

  void flatten(const TomlTable& table,
               const std::string& prefix,
               std::map<std::string, Value>& point) const {
    for (const TomlItem& item : table.items()) {
      const std::string name = prefix + item.key;
      if (const toml::table* inner = item.node->as_table())
        flatten(TomlTable(file_, *inner, concat("points_to_evaluate.", name), item.at),
                name + '.',
                point);
      else
        point[name] = table.scalar(item, *item.node);
    }
  }

  void read_command() {
    const TomlItem* item = top_.find("command");
    if (item == nullptr) return;
    if (item->node->is_string())
      top_.refuse(*item,
                  "it is a list of words",
                  *item->node->value_exact<std::string>(),
                  R"(["./train.sh", "--lr", "{lr}"], or ["sh", "-c", "…"] for a shell's line)");
    spec_.command = top_.texts("command");
    if (spec_.command.empty()) top_.refuse(*item, "its first word is a program");
    located(top_, "command", [&] {
      check_command(spec_.command, spec_.space);
      return 0;
    });
  }

  const fs::path& file_;
  TomlTable top_;
  std::vector<Parameter> more_;
  std::map<std::string, std::string> places_;  // by parameter
  StudySpec spec_;
};

}  // namespace

StudySpec parse_study(std::string_view text,
                      const fs::path& file,
                      std::span<const Parameter> parameters) {
  return StudyReader(file, parse_toml(text, file), parameters).read();
}

StudySpec read_study_file(const fs::path& file, std::span<const Parameter> parameters) {
  return parse_study(read_file(file), file, parameters);
}

std::vector<Parameter> merge_parameters(std::span<const Parameter> parameters,
                                        std::span<const Parameter> more) {
  std::vector<Parameter> out(parameters.begin(), parameters.end());
  for (const Parameter& parameter : more) {
    const auto old = std::find_if(
        out.begin(), out.end(), [&](const Parameter& one) { return one.name == parameter.name; });
    if (old != out.end())
      *old = parameter;
    else
      out.push_back(parameter);
  }
  return out;
}

}  // namespace muster::tune
