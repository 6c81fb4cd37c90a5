#include "muster/program/line/command_text.h"

#include <CLI/CLI.hpp>

#include "muster/base/json.h"

namespace muster::program {
namespace {

OptionText option_text_of(const CLI::Option& option) {
  OptionText text;
  for (const std::string& name : option.get_snames()) text.flags.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.flags.push_back("--" + name);
  if (option.get_items_expected_max() > 0) text.value = option.get_type_name();
  if (option.get_positional() && text.value.empty()) text.value = option.get_name(true);
  text.help = option.get_description();
  if (!option.get_default_str().empty()) text.help += " [" + option.get_default_str() + "]";
  return text;
}

}  // namespace

CommandText command_text_of(const CLI::App& app) {
  CommandText text{.about = app.get_description(), .footer = app.get_footer()};
  constexpr std::string_view kUsage = "Usage: ";
  const std::string help = app.help();
  const size_t from = help.find(kUsage) + kUsage.size();
  text.usage = help.substr(from, help.find('\n', from) - from);
  for (const CLI::Option* option : app.get_options())
    text.options.push_back(option_text_of(*option));
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

}  // namespace muster::program
