#include "muster/program/line/value.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string_view>
#include <system_error>

#include "muster/base/duration.h"
#include "muster/base/error.h"
#include "muster/base/number_rule.h"
#include "muster/base/path_names.h"
#include "muster/base/text.h"

namespace muster::program {
namespace {

template <class Whole>
Whole whole_number(const std::string& flag, const std::string& text) {
  Whole value{};
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc{} && stopped == end) return value;
  const std::string_view digits = std::string_view(text).substr(text.starts_with('-') ? 1 : 0);
  const bool whole = digits.find_first_not_of("0123456789") == std::string_view::npos;
  throw usage_error({.refused = flag,
                     .rule = digits.empty() || !whole ? "a whole number is needed"
                                                      : concat("a whole number from ",
                                                               std::numeric_limits<Whole>::min(),
                                                               " to ",
                                                               std::numeric_limits<Whole>::max(),
                                                               " is needed"),
                     .value = text.empty() ? "\"\"" : text});
}

/// "-n,--lr" -> "--lr"; a positional stays as it is.
std::string said_name(const std::string& names) {
  const size_t comma = names.rfind(',');
  return comma == std::string::npos ? names : names.substr(comma + 1);
}

}  // namespace

void read_value(const std::string& flag, const std::string& text, int64_t& value) {
  value = whole_number<int64_t>(flag, text);
}

void read_value(const std::string& flag, const std::string& text, uint64_t& value) {
  value = whole_number<uint64_t>(flag, text);
}

void read_value(const std::string& flag, const std::string& text, double& value) {
  const auto number = to_double(text);
  if (!number || !std::isfinite(*number)) {
    throw usage_error({.refused = flag,
                       .rule = std::string(number_rule(text)),
                       .value = text.empty() ? "\"\"" : text});
  }
  value = *number;
}

void read_value(const std::string&, const std::string& text, std::string& value) { value = text; }

void read_value(const std::string& flag, const std::string& text, std::filesystem::path& value) {
  if (text.empty()) {  // a variable of a script that is not set: not the default
    throw usage_error({.refused = flag,
                       .rule = "it names a file or folder",
                       .value = "\"\"",
                       .hint = "leave the flag away"});
  }
  require_nameable(text, flag);
  value = text;
}

double read_duration(const std::string& flag, const std::string& text) {
  if (const auto seconds = seconds_of(text)) return *seconds;
  throw usage_error({.refused = flag,
                     .rule = "a span of time is needed: 90s, 1h30m, or a number of seconds",
                     .value = text.empty() ? "\"\"" : text,
                     .hint = "units are d, h, m, s and ms, the longer ones first"});
}

std::string shown_value(int64_t value) { return std::to_string(value); }
std::string shown_value(uint64_t value) { return std::to_string(value); }
std::string shown_value(double value) { return shortest(value); }
std::string shown_value(const std::string& value) { return value; }
std::string shown_value(const std::filesystem::path& value) { return value.string(); }

CLI::Option* detail::add_value(
    CLI::App& app,
    const std::string& names,
    const std::string& help,
    std::function<void(const std::string& flag, const std::string& text)> read,
    std::function<std::string()> show) {
  const auto parse = [flag = said_name(names),
                      read = std::move(read)](const CLI::results_t& given) {
    read(flag, given.front());
    return true;
  };
  return app.add_option(names, parse, help, /*defaulted=*/false, std::move(show));
}

CLI::Option* add_duration(CLI::App& app,
                          const std::string& names,
                          double& seconds,
                          const std::string& help) {
  const auto read = [&seconds](const std::string& flag, const std::string& text) {
    seconds = read_duration(flag, text);
  };
  return detail::add_value(app, names, help, read, [&seconds] { return shown_value(seconds); })
      ->type_name("TIME");
}

CLI::Option* add_duration(CLI::App& app,
                          const std::string& names,
                          std::optional<double>& seconds,
                          const std::string& help) {
  const auto read = [&seconds](const std::string& flag, const std::string& text) {
    seconds = read_duration(flag, text);
  };
  const auto show = [&seconds] { return seconds ? shown_value(*seconds) : std::string(); };
  return detail::add_value(app, names, help, read, show)->type_name("TIME");
}

CLI::Option* add_value(CLI::App& app,
                       const std::string& names,
                       std::vector<int64_t>& values,
                       const std::string& help) {
  const auto parse = [flag = said_name(names), &values](const CLI::results_t& given) {
    values.clear();
    for (const std::string& text : given) read_value(flag, text, values.emplace_back());
    return true;
  };
  return app.add_option(names, parse, help)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

CLI::Option* add_value(CLI::App& app,
                       const std::string& names,
                       std::vector<std::string>& values,
                       const std::string& help) {
  return app.add_option(names, values, help);
}

}  // namespace muster::program
