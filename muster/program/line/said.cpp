#include "muster/program/line/said.h"

#include <algorithm>

#include "muster/base/text.h"

namespace muster::program {

std::string flag_of_option(std::string_view option) {
  std::string flag = concat("--", option);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string option_of_flag(std::string_view flag) {
  std::string option(flag.substr(flag.find_first_not_of('-')));
  std::replace(option.begin(), option.end(), '-', '_');
  return option;
}

std::vector<std::string> said_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0 && !option->get_lnames().empty())
      names.push_back(option_of_flag("--" + option->get_lnames()[0]));
  }
  return names;
}

std::vector<std::string> said_off(const CLI::App& app, std::span<const ConfigPlace> places) {
  std::vector<std::string> names;
  for (const ConfigPlace& place : places) {
    const CLI::Option& option = *app.get_option("--" + place.flag);
    if (option.get_items_expected_max() == 0 && option.count() == 0)
      names.push_back(option_of_flag("--" + place.flag));
  }
  return names;
}

std::vector<std::string> said_words(const CLI::App& app, std::span<const std::string_view> but) {
  std::vector<std::string> words;
  for (const std::string& name : said_options(app)) {
    if (std::find(but.begin(), but.end(), name) != but.end()) continue;
    const std::string flag = flag_of_option(name);
    const CLI::Option& option = *app.get_option(flag);
    const bool is_switch = option.get_items_expected_max() == 0;
    words.push_back(is_switch ? flag : concat(flag, '=', option.results().front()));
  }
  return words;
}

}  // namespace muster::program
