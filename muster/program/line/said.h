// What a command line has said.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "muster/program/config/config_file.h"
#include "muster/program/line/value.h"

namespace muster::program {

/// "batch_size", as in a plan, -> "--batch-size".
std::string flag_of_option(std::string_view option);
/// "--batch-size" -> "batch_size".
std::string option_of_flag(std::string_view flag);

/// The flag of an option that `info` describes (name, value, help, show_default); a bool is a switch,
/// a number whose value is TIME a span of time in seconds, as add_duration has it.
template <class Info, class T>
void add_option_flag(CLI::App& app, const Info& info, T& value) {
  const std::string flag = flag_of_option(info.name), help(info.help);
  if constexpr (std::is_same_v<T, bool>) {
    app.add_flag(flag, value, help);
  } else {
    if constexpr (std::is_same_v<T, double>) {
      if (info.value == "TIME") {
        add_duration(app, flag, value, help);
        return;
      }
    }
    CLI::Option* option = add_value(app, flag, value, help)->type_name(std::string(info.value));
    if (info.show_default) option->capture_default_str();
  }
}

/// The options given, by the names that they have in a plan.
std::vector<std::string> said_options(const CLI::App& app);

/// The switches that a config file says off, by the names that they have in a plan. A run that goes
/// on may have begun with them on.
std::vector<std::string> said_off(const CLI::App& app, std::span<const ConfigPlace> places);

/// What was said, as words: "--lr=0.1", "--fast-dev-run"; but for these options.
std::vector<std::string> said_words(const CLI::App& app, std::span<const std::string_view> but);

}  // namespace muster::program
