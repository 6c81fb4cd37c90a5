#include "muster/launch/job/rank_plan.h"

#include <algorithm>
#include <map>
#include <optional>

#include <unistd.h>

#include "muster/base/ended_ranks.h"
#include "muster/base/error_report.h"
#include "muster/base/job_key.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
#include "muster/launch/io/pipe.h"

namespace muster::launch {

std::filesystem::path error_file(const AttemptPlan& plan, int64_t local_rank) {
  if (plan.log_folder.empty()) return {};
  return plan.log_folder / std::to_string(local_rank) / "error.json";
}

std::filesystem::path ended_folder(const AttemptPlan& plan) {
  return plan.log_folder.empty() ? std::filesystem::path() : plan.log_folder / "ended";
}

std::vector<std::string> rank_environment(const JobSpec& spec,
                                          const AttemptPlan& plan,
                                          int64_t local_rank,
                                          std::span<const std::string> inherited) {
  RankEnv env;
  env.rank = global_rank(spec, local_rank);
  env.world_size = spec.nproc_per_node * spec.nnodes;
  env.local_rank = local_rank;
  env.local_world_size = spec.nproc_per_node;
  env.group_rank = spec.node_rank;
  env.group_world_size = spec.nnodes;
  env.role_rank = env.rank;
  env.role_world_size = env.world_size;
  env.role_name = spec.role;
  env.master_addr = spec.master_addr;
  env.master_port = plan.master_port;
  env.restart_count = plan.restart_count;
  env.max_restarts = spec.max_restarts;
  env.run_id = spec.run_id.empty() ? "none" : spec.run_id;

  // Nothing as the value means: not in the rank's environment, whatever the launcher has.
  std::map<std::string, std::optional<std::string>, std::less<>> ours;
  for (auto& [name, value] : to_environment(env)) ours[name] = value;
  auto& report = ours[std::string(kErrorFileEnv)];
  auto& progress = ours[std::string(kProgressFdEnv)];
  auto& ended = ours[std::string(kEndedRanksEnv)];
  if (!plan.log_folder.empty()) ended = ended_folder(plan).string();
  if (!plan.log_folder.empty()) report = error_file(plan, local_rank).string();
  if (!plan.job_key.empty()) ours[std::string(kJobKeyEnv)] = plan.job_key;
  if (env.rank == 0) progress = std::to_string(kProgressFd);

  std::map<std::string, std::string, std::less<>> defaults;
  defaults.emplace("PYTHONUNBUFFERED", "1");
  if (spec.nproc_per_node > 1) defaults.emplace("OMP_NUM_THREADS", "1");

  std::vector<std::string> out;
  for (const std::string& variable : inherited) {
    const std::string_view name = std::string_view(variable).substr(0, variable.find('='));
    if (ours.contains(name)) continue;
    if (const auto found = defaults.find(name); found != defaults.end()) defaults.erase(found);
    out.push_back(variable);
  }
  for (const auto& [name, value] : ours) {
    if (value) out.push_back(concat(name, '=', *value));
  }
  for (const auto& [name, value] : defaults) out.push_back(concat(name, '=', value));
  return out;
}

std::vector<std::string> inherited_environment() {
  std::vector<std::string> out;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    out.emplace_back(*variable);
  }
  return out;
}

}  // namespace muster::launch
