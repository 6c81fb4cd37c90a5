#include "muster/base/rank_variables.h"

#include <string_view>
#include <utility>

#include "muster/base/ended_ranks.h"
#include "muster/base/error_report.h"
#include "muster/base/job_key.h"
#include "muster/base/rank_env.h"

namespace muster {

std::vector<std::string> rank_variables() {
  std::vector<std::string> names;
  for (auto& [name, value] : to_environment({})) names.push_back(std::move(name));
  for (const std::string_view name : {kErrorFileEnv, kProgressFdEnv, kJobKeyEnv, kEndedRanksEnv})
    names.emplace_back(name);
  return names;
}

}  // namespace muster
