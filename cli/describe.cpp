#include "cli/describe.h"

#include <algorithm>
#include <sstream>

#include <CLI/CLI.hpp>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "cli/list_table.h"
#include "cli/study_commands.h"

namespace muster::cli {
namespace {

OptionText describe(const CLI::Option& option) {
  OptionText text;
  for (const std::string& name : option.get_snames()) text.flags.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.flags.push_back("--" + name);
  if (option.get_items_expected_max() > 0) text.value = option.get_type_name();
  if (option.get_positional() && text.value.empty()) text.value = option.get_name(true);
  text.help = option.get_description();
  if (!option.get_default_str().empty()) text.help += " [" + option.get_default_str() + "]";
  return text;
}

/// What the command says of itself. Nothing of it is run: kDescribe is looked at before all else.
CommandText ask(int (*run)(std::span<const std::string>, Console&),
                std::string name,
                std::string_view help) {
  std::ostringstream out, err;
  Console console(out, err, /*err_is_terminal=*/false, /*colour=*/false);
  const std::vector<std::string> words{std::string(kDescribe)};
  if (run(words, console) != kDone)
    throw internal_error({.refused = concat("muster ", name, " does not describe itself")});
  CommandText text = command_text(parse_json(out.str(), name));
  text.name = std::move(name);
  text.help = help;
  return text;
}

}  // namespace

CommandText describe(const CLI::App& app) {
  CommandText text{.about = app.get_description(), .footer = app.get_footer()};
  constexpr std::string_view kUsage = "Usage: ";
  const std::string help = app.help();
  const size_t from = help.find(kUsage) + kUsage.size();
  text.usage = help.substr(from, help.find('\n', from) - from);
  for (const CLI::Option* option : app.get_options()) text.options.push_back(describe(*option));
  return text;
}

Json to_json(const CommandText& command) {
  Json options = Json::array();
  for (const OptionText& option : command.options)
    options.push_back({{"flags", option.flags}, {"value", option.value}, {"help", option.help}});
  return {{"about", command.about},
          {"usage", command.usage},
          {"options", std::move(options)},
          {"footer", command.footer}};
}

CommandText command_text(const Json& json) {
  CommandText text{.about = json.at("about").get<std::string>(),
                   .usage = json.at("usage").get<std::string>(),
                   .footer = json.at("footer").get<std::string>()};
  for (const Json& option : json.at("options")) {
    text.options.push_back({.flags = option.at("flags").get<std::vector<std::string>>(),
                            .value = option.at("value").get<std::string>(),
                            .help = option.at("help").get<std::string>()});
  }
  return text;
}

std::vector<CommandText> describe_all(const EntryTable<CommandEntry>& table) {
  std::vector<CommandText> all;
  for (const CommandEntry* entry : table) {
    if (entry->name != "study") {
      all.push_back(ask(entry->run, std::string(entry->name), entry->help));
      continue;
    }
    all.push_back({.name = "study",
                   .help = std::string(entry->help),
                   .about = "Look at stored studies, and reach those that run.",
                   .usage = "muster study CMD STORAGE [OPTIONS]"});
    for (const StudyCommand& command : study_commands())
      all.push_back(ask(command.run, concat("study ", command.name), command.help));
  }
  return all;
}

std::string kind_of_names(const OptionText& option) {
  constexpr std::string_view kWords = "muster list ";
  const size_t at = option.help.find(kWords);
  if (at == std::string::npos) return "";
  const std::string_view rest = std::string_view(option.help).substr(at + kWords.size());
  const std::string kind(rest.substr(0, rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz-")));
  const auto kinds = list_kinds();
  return std::ranges::find(kinds, kind, &ListKind::name) != kinds.end() ? kind : "";
}

}  // namespace muster::cli
