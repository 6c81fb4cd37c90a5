#include "muster/tune/files/sweep_yaml.h"

#include <cmath>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
#include "muster/tune/files/sweep_parameter.h"
#include "muster/tune/files/yaml_map.h"
#include "muster/tune/space/command_template.h"

namespace muster::tune {
namespace fs = std::filesystem;
namespace {

// Far above any sweep; ends the reading of a file whose aliases unfold without end.
constexpr size_t kMostParameters = 10000;
// Above the last rung of a sweep without max_iter: further than any trial goes.
constexpr int64_t kNoEnd = 1000000000;

class SweepReader {
 public:
  SweepReader(const fs::path& file, const YAML::Node& root) : file_(file), top_(file, root, "") {}

  StudySpec read() {
    for (const char* key : {"program",
                            "name",
                            "method",
                            "metric",
                            "parameters",
                            "early_terminate",
                            "command",
                            "run_cap",
                            "entity",
                            "project",
                            "description"})
      top_.find(key);
    top_.refuse_unknown();
    note_places();
    spec_.name = top_.text("name").value_or(file_.stem().string());
    if (spec_.name.find_first_of("/\n\r\t") != std::string::npos)
      top_.refuse("name", "it names a file, so it has no slash and is one line", spec_.name);
    spec_.storage = beside(spec_.name + ".db");
    spec_.working_folder = beside(".");
    if (auto metric = top_.map("metric")) read_metric(*metric);
    read_method();
    read_parameters();
    if (auto early = top_.map("early_terminate")) read_early_terminate(*early);
    read_command();
    read_run_cap();
    return std::move(spec_);
  }

 private:
  /// Of what the study refuses later, by the sweep's words for it.
  void note_places() {
    spec_.places[std::string(kWholeFile)] = concat(file_.string(), ":1:1");
    constexpr std::pair<std::string_view, const char*> kKeys[] = {{"program", "command"},
                                                                  {"command", "command"},
                                                                  {"method", "searcher"},
                                                                  {"early_terminate", "scheduler"},
                                                                  {"run_cap", "num_samples"}};
    for (const auto& [word, key] : kKeys) {
      for (const YamlMap::Item& item : top_.items()) {
        const YAML::Mark mark = item.key_node.Mark();
        if (item.key == word)
          spec_.places[key] = concat(file_.string(), ':', mark.line + 1, ':', mark.column + 1);
      }
    }
  }

  fs::path beside(const std::string& path) const {
    return (file_.parent_path() / path).lexically_normal();
  }

  void read_metric(YamlMap& metric) {
    spec_.metric = metric.text("name").value_or("");
    if (spec_.metric.empty()) metric.refuse_all("it has a name");
    const std::string goal = metric.text("goal").value_or("minimize");
    if (goal != "minimize" && goal != "maximize")
      metric.refuse("goal", "it is minimize or maximize", goal);
    spec_.mode = goal == "minimize" ? Mode::kMin : Mode::kMax;
    if (metric.find("target"))
      metric.refuse("target",
                    "a study here has no target that ends it",
                    "",
                    concat("stop = [\"",
                           spec_.metric,
                           spec_.mode == Mode::kMin ? " <= " : " >= ",
                           "…\"] in a study file ends a trial that reaches it"));
    metric.refuse_unknown();
  }

  void read_method() {
    const auto method = top_.text("method");
    constexpr const char* kMethods = "it is random, grid or bayes";
    if (!method) top_.refuse("method", kMethods);
    if (*method != "random" && *method != "grid" && *method != "bayes")
      top_.refuse("method", kMethods, *method);
    grid_ = *method == "grid";
    spec_.searcher = *method == "bayes" ? "gp" : "random";
  }

  void read_parameters() {
    auto map = top_.map("parameters");
    if (!map) top_.refuse("parameters", "a sweep has parameters");
    std::vector<Parameter> parameters;
    read_group(*map, "", parameters);
    try {
      spec_.space = Space(std::move(parameters));
    } catch (const Error& error) {
      top_.refuse("parameters",
                  concat(error.text().refused, ": ", error.text().rule),
                  error.text().value,
                  error.text().hint);
    }
    if (spec_.space.parameters().empty()) top_.refuse("parameters", "a sweep has parameters");
  }

  void read_group(const YamlMap& group,
                  const std::string& prefix,
                  std::vector<Parameter>& parameters) {
    for (const YamlMap::Item& item : group.items()) {
      if (++read_ > kMostParameters)
        top_.refuse("parameters", concat("at most ", kMostParameters, " parameters"));
      YamlMap map(file_, item.node, group.name() + '.' + item.key);
      if (const auto inner = map.map("parameters")) {
        map.refuse_unknown();
        read_group(*inner, prefix + item.key + '.', parameters);
      } else {
        parameters.push_back({.name = prefix + item.key, .domain = read_sweep_domain(map, grid_)});
      }
    }
  }

  /// W&B's brackets: min_iter · eta^k without end, or max_iter / eta^k for k = 1 … s. No trial ends
  /// at the last one.
  void read_early_terminate(YamlMap& early) {
    const auto type = early.text("type");
    if (type != "hyperband") early.refuse("type", "it is hyperband", type.value_or(""));
    const double eta = early.number("eta").value_or(3);
    if (!std::isfinite(eta) || eta <= 1) early.refuse("eta", "it is above 1", shortest(eta));
    const auto min_iter = early.whole("min_iter", 1), max_iter = early.whole("max_iter", 1);
    const auto s = early.whole("s", 1);
    if (const auto strict = early.value("strict"); strict && *strict != Value(false))
      early.refuse("strict", "ASHA has no strict pruning", value_text(*strict));
    early.refuse_unknown();
    if (min_iter.has_value() == max_iter.has_value() || s.has_value() != max_iter.has_value())
      early.refuse_all("it has min_iter, or max_iter and s");
    const int64_t lowest = min_iter ? *min_iter : lowest_bracket(early, *max_iter, *s, eta);
    const int64_t end = min_iter ? kNoEnd : *max_iter - 1;
    if (lowest > end) early.refuse_all("its lowest bracket is below its end");
    spec_.scheduler = concat("asha:max_t=",
                             end,
                             ",grace_period=",
                             lowest,
                             ",reduction_factor=",
                             shortest(eta),
                             ",stop_last_trials=false");
  }

  static int64_t lowest_bracket(const YamlMap& early, int64_t max_iter, int64_t s, double eta) {
    const double lowest = static_cast<double>(max_iter) / std::pow(eta, static_cast<double>(s));
    if (!(lowest >= 1) || std::trunc(lowest) != lowest)
      early.refuse_all("max_iter divided by eta, s times, is a whole number from 1");
    return static_cast<int64_t>(lowest);
  }

  /// `{`, `}` are placeholders' in our commands.
  static std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) out.append(c == '{' || c == '}' ? 2 : 1, c);
    return out;
  }

  void read_command() {
    const auto program = top_.text("program");
    std::vector<Value> words = {"${env}", "${interpreter}", "${program}", "${args}"};
    if (const auto given = top_.values("command")) {
      words = *given;
    } else if (!program) {
      top_.refuse("program", "a sweep has a program or a command");
    }
    for (const Value& word : words) add_word(value_text(word), program);
    if (spec_.command.empty() || spec_.command[0].empty())
      top_.refuse("command", "its first word is a program");
    located(spec_, "command", [&] { check_command(spec_.command, spec_.space); });
  }

  void add_word(const std::string& word, const std::optional<std::string>& program) {
    const auto add_all = [&](std::string_view before) {
      for (const Parameter& parameter : spec_.space.parameters())
        spec_.command.push_back(concat(before, parameter.name, "={", parameter.name, '}'));
    };
    if (word == "${args}") return add_all("--");
    if (word == "${args_no_hyphens}") return add_all("");
    if (word == "${args_no_boolean_flags}") {
      for (size_t p = 0; p < spec_.space.parameters().size(); ++p) check_no_boolean(p);
      return add_all("--");
    }
    std::string out;
    for (size_t at = 0; at < word.size();) {
      const size_t from = word.find("${", at);
      out += escaped(std::string_view(word).substr(at, from - at));
      if (from == std::string::npos) break;
      const size_t end = word.find('}', from);
      if (end == std::string::npos) top_.refuse("command", "a macro has an end: ${program}", word);
      out += expanded(word.substr(from + 2, end - from - 2), word, program);
      at = end + 1;
    }
    spec_.command.push_back(std::move(out));
  }

  /// W&B writes a true one as --flag and leaves a false one out, which depends on the trial.
  void check_no_boolean(size_t p) const {
    const Parameter& parameter = spec_.space.parameters()[p];
    for (const Value& value : spec_.space.image_of(p).value_or(std::vector<Value>())) {
      if (value.is_bool())
        top_.refuse("command",
                    "${args_no_boolean_flags} cannot be mapped where a parameter is true or false",
                    parameter.name,
                    "${args} writes --name=true");
    }
  }

  /// A macro inside a word.
  std::string expanded(const std::string& macro,
                       const std::string& word,
                       const std::optional<std::string>& program) const {
    if (macro == "env") return "/usr/bin/env";
    if (macro == "interpreter") return "python3";
    if (macro == "args_json") return "{@params}";
    if (macro == "program") {
      if (!program) top_.refuse("command", "${program} needs the key program", word);
      return escaped(*program);
    }
    constexpr std::string_view kVariable = "envvar:";
    if (macro.starts_with(kVariable)) {
      const auto value = process_environment(std::string(macro.substr(kVariable.size())));
      if (!value) top_.refuse("command", "the environment has the variable", word);
      return escaped(*value);
    }
    if (macro == "args_json_file")
      top_.refuse("command",
                  "${args_json_file} cannot be mapped",
                  word,
                  "the file that MUSTER_PARAMS_FILE names has them");
    const std::vector<std::string> known = {"env",
                                            "interpreter",
                                            "program",
                                            "args",
                                            "args_json",
                                            "args_no_hyphens",
                                            "args_no_boolean_flags"};
    top_.refuse("command", concat("${", macro, "} is no macro"), word, suggestion(macro, known));
  }

  void read_run_cap() {
    const auto cap = top_.whole("run_cap", 1);
    spec_.num_samples = cap.value_or(-1);
    if (!grid_) return;
    double grid = 1;
    for (const size_t d : spec_.space.grid_dimensions())
      grid *= static_cast<double>(
          std::get<CategoricalDistribution>(spec_.space.dimensions()[d].distribution)
              .choices.size());
    if (cap && static_cast<double>(*cap) < grid)
      top_.refuse("run_cap", concat("a grid of ", shortest(grid), " is tried to its end here"));
    spec_.num_samples = 1;
  }

  const fs::path& file_;
  YamlMap top_;
  bool grid_ = false;
  size_t read_ = 0;
  StudySpec spec_;
};

}  // namespace

StudySpec parse_sweep(std::string_view text, const fs::path& file) {
  YAML::Node root;
  try {
    root = YAML::Load(std::string(text));
  } catch (const YAML::Exception& error) {
    throw usage_error({.refused = concat(file.string(),
                                         ':',
                                         error.mark.line + 1,
                                         ':',
                                         error.mark.column + 1,
                                         ": not valid YAML"),
                       .rule = error.msg});
  }
  return SweepReader(file, root).read();
}

StudySpec read_sweep_yaml(const fs::path& file) { return parse_sweep(read_file(file), file); }

}  // namespace muster::tune
