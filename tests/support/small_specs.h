// Strategies of a table with options for small studies, without naming a strategy.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/text.h"

namespace muster::test {

/// "asha:max_t=9,grace_period=1,reduction_factor=3": the entry with such of these options as it has,
/// so that it acts within nine steps of a few dozen trials.
template <class Entry>
std::string small_spec(const Entry& entry) {
  constexpr std::pair<const char*, const char*> kSmall[] = {{"max_t", "9"},
                                                            {"grace_period", "1"},
                                                            {"reduction_factor", "3"},
                                                            {"perturbation_interval", "2"},
                                                            {"startup", "6"},
                                                            {"samples", "32"},
                                                            {"population", "4"},
                                                            {"min_samples_required", "2"},
                                                            {"n_startup_trials", "2"}};
  std::vector<std::string> options;
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(entry.params, [&](const auto& p) { return p.name == name; });
  };
  for (const auto& [name, value] : kSmall) {
    // Who has both has them for two rules, and refuses them together.
    if (name == std::string_view("n_startup_trials") && has("min_samples_required")) continue;
    if (has(name)) options.push_back(concat(name, '=', value));
  }
  return options.empty() ? std::string(entry.name) : concat(entry.name, ':', join(options, ","));
}

/// Of each entry that `wanted` takes.
template <class Table, class Wanted>
std::vector<std::string> small_specs(const Table& table, Wanted wanted) {
  std::vector<std::string> specs;
  for (const auto& name : table.names()) {
    const auto& entry = table.at(name);
    if (wanted(entry)) specs.push_back(small_spec(entry));
  }
  return specs;
}

}  // namespace muster::test
