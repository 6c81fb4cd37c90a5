// Typed options of a strategy: one declaration gives the setter, the help and the default.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster {

/// One field of an options struct, with the struct's type erased. Made by
/// `param<&Options::field>(name, help)`; usable in a constant initialiser, so an entry can carry
/// its parameters without any code at start-up.
struct Param {
  std::string_view name;
  std::string_view help;
  /// "int", "float", "bool", "text", "ints" or "floats"
  std::string_view type;
  void (*set)(void* options, std::string_view text);  ///< throws a usage error
  std::string (*show)(const void* options);           ///< the value as it would be typed
  std::string (*default_value)();                     ///< the same of a fresh options struct
};

/// Values as the user typed them, by parameter name: {"hidden", "128"}.
using ParamValues = std::map<std::string, std::string, std::less<>>;

/// Reads "hidden=128,dropout=0.1" (the part behind the colon of "mlp:hidden=128,dropout=0.1"). A list
/// stands in brackets: "scale=[0.08,1]". Throws a usage error for a missing "=", an empty name, a
/// name given twice, a bracket without its other one, or a quote that begins a name in brackets and has no other one.
ParamValues parse_param_values(std::string_view text);

/// A strategy with its parameters as a user names it: "asha:max_t=10,grace_period=1".
struct Spec {
  std::string name;
  ParamValues params;
};
/// The name ends at the first ":". Throws as parse_param_values.
Spec parse_spec(std::string_view text);

namespace detail {

template <class T>
struct ParamType;
template <>
struct ParamType<int64_t> {
  static constexpr std::string_view kName = "int";
  static int64_t parse(std::string_view text);
  static std::string show(int64_t value) { return std::to_string(value); }
};
template <>
struct ParamType<double> {
  static constexpr std::string_view kName = "float";
  static double parse(std::string_view text);
  static std::string show(double value) { return shortest(value); }
};
template <>
struct ParamType<bool> {
  static constexpr std::string_view kName = "bool";
  static bool parse(std::string_view text);
  static std::string show(bool value) { return value ? "true" : "false"; }
};
template <>
struct ParamType<std::string> {
  static constexpr std::string_view kName = "text";
  static std::string parse(std::string_view text) { return std::string(text); }
  static std::string show(const std::string& value) { return value; }
};
/// "[0.08,1]", "3" for a list of one, "none" for an empty one.
template <>
struct ParamType<std::vector<int64_t>> {
  static constexpr std::string_view kName = "ints";
  static std::vector<int64_t> parse(std::string_view text);
  static std::string show(const std::vector<int64_t>& values);
};
template <>
struct ParamType<std::vector<double>> {
  static constexpr std::string_view kName = "floats";
  static std::vector<double> parse(std::string_view text);
  static std::string show(const std::vector<double>& values);
};

template <class>
struct MemberPointer;
template <class S, class F>
struct MemberPointer<F S::*> {
  using Struct = S;
  using Field = F;
};

void set_params(std::span<const Param> params,
                const ParamValues& values,
                void* options,
                std::string_view owner);

std::string spec_text(std::string_view name, std::span<const Param> params, const void* options);

}  // namespace detail

template <auto Member>
consteval Param param(std::string_view name, std::string_view help) {
  using Struct = typename detail::MemberPointer<decltype(Member)>::Struct;
  using Field = typename detail::MemberPointer<decltype(Member)>::Field;
  using Type = detail::ParamType<Field>;
  return {
      name,
      help,
      Type::kName,
      [](void* options, std::string_view text) {
        static_cast<Struct*>(options)->*Member = Type::parse(text);
      },
      [](const void* options) { return Type::show(static_cast<const Struct*>(options)->*Member); },
      [] { return Type::show(Struct{}.*Member); }};
}

/// Throws a usage error that names `owner` for a value whose parameter is not among `params`, with
/// a suggestion. For owners that are made later than they should be checked.
void check_param_names(std::span<const Param> params,
                       const ParamValues& values,
                       std::string_view owner);

/// The defaults of `Options`, overwritten by `values`. Throws a usage error that names `owner`, the
/// parameter and the value; an unknown parameter gets a suggestion.
template <class Options>
Options resolve_params(std::span<const Param> params,
                       const ParamValues& values,
                       std::string_view owner) {
  Options options;
  detail::set_params(params, values, &options, owner);
  return options;
}

/// The inverse of parse_spec and resolve_params: `name` with those of `options` that are not the
/// defaults. Throws a usage error for a text that a spec cannot hold (with a comma outside brackets,
/// or a blank at an end).
template <class Options>
std::string spec_text(std::string_view name,
                      std::span<const Param> params,
                      const Options& options) {
  return detail::spec_text(name, params, &options);
}

}  // namespace muster
