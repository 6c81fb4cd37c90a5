// Values of flags, read and refused by our own rules: CLI11 cuts a number that is too large to the
// largest one, and refuses the rest in words of its own.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

namespace muster::program {

/// Reads what was typed for `flag`. Throws a usage error that names the flag, the rule (with the
/// range of a whole number) and the text; of a path, too, if no file can have it.
void read_value(const std::string& flag, const std::string& text, int64_t& value);
void read_value(const std::string& flag, const std::string& text, uint64_t& value);
void read_value(const std::string& flag, const std::string& text, double& value);
void read_value(const std::string& flag, const std::string& text, std::string& value);
void read_value(const std::string& flag, const std::string& text, std::filesystem::path& value);

/// The seconds of a span of time: see add_duration. Throws as read_value.
double read_duration(const std::string& flag, const std::string& text);

/// As it would be typed.
std::string shown_value(int64_t value);
std::string shown_value(uint64_t value);
std::string shown_value(double value);
std::string shown_value(const std::string& value);
std::string shown_value(const std::filesystem::path& value);

namespace detail {

CLI::Option* add_value(CLI::App& app,
                       const std::string& names,
                       const std::string& help,
                       std::function<void(const std::string& flag, const std::string& text)> read,
                       std::function<std::string()> show);

}  // namespace detail

/// Adds a flag ("--lr", "-n,--lr") or a positional ("study") that takes one value, written to
/// `value`, which must outlive the parsing.
template <class T>
CLI::Option* add_value(CLI::App& app, const std::string& names, T& value, const std::string& help) {
  return detail::add_value(
      app,
      names,
      help,
      [&value](const std::string& flag, const std::string& text) { read_value(flag, text, value); },
      [&value] { return shown_value(value); });
}

/// The same for one that has no value unless it is given.
template <class T>
CLI::Option* add_value(CLI::App& app,
                       const std::string& names,
                       std::optional<T>& value,
                       const std::string& help) {
  return detail::add_value(
      app,
      names,
      help,
      [&value](const std::string& flag, const std::string& text) {
        T read{};
        read_value(flag, text, read);
        value = std::move(read);
      },
      [&value] { return value ? shown_value(*value) : std::string(); });
}

/// A flag that takes a span of time, TIME in its help: "90s", "1h30m" as duration_s has them, or a
/// number of seconds.
CLI::Option* add_duration(CLI::App& app,
                          const std::string& names,
                          double& seconds,
                          const std::string& help);
CLI::Option* add_duration(CLI::App& app,
                          const std::string& names,
                          std::optional<double>& seconds,
                          const std::string& help);

/// A number (`value`), or a word that its type knows.
template <class T>
concept NumberOrWord = requires(T given, const T& shown, std::string_view text) {
  { given.take_word(text) } -> std::same_as<bool>;
  { shown.word() } -> std::convertible_to<std::string>;
  given.value = 1;
};

/// The same for a number or a word.
template <NumberOrWord T>
CLI::Option* add_value(CLI::App& app, const std::string& names, T& value, const std::string& help) {
  return detail::add_value(
      app,
      names,
      help,
      [&value](const std::string& flag, const std::string& text) {
        if (value.take_word(text)) return;
        std::remove_cvref_t<decltype(*value.value)> number{};
        read_value(flag, text, number);
        value = T(number);
      },
      [&value] { return value.value ? shown_value(*value.value) : std::string(value.word()); });
}

/// Whole numbers, one each time that the flag is given.
CLI::Option* add_value(CLI::App& app,
                       const std::string& names,
                       std::vector<int64_t>& values,
                       const std::string& help);

/// Texts, as CLI11 takes them.
CLI::Option* add_value(CLI::App& app,
                       const std::string& names,
                       std::vector<std::string>& values,
                       const std::string& help);

}  // namespace muster::program
