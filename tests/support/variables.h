// An environment that a test makes up: nothing of the process's own is in it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "muster/base/rank_env.h"

namespace muster::test {

using Variables = std::map<std::string, std::string, std::less<>>;

inline EnvLookup lookup_in(Variables variables) {
  return [variables = std::move(variables)](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

}  // namespace muster::test
