#include "muster/base/rank_env.h"

#include <cstdlib>
#include <limits>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster {
namespace {

int64_t number(const EnvLookup& lookup,
               std::string_view name,
               int64_t otherwise,
               int64_t least,
               int64_t most) {
  const auto text = lookup(name);
  if (!text) return otherwise;
  const auto value = to_int(trim(*text));
  if (value && *value >= least && *value <= most) return *value;
  throw usage_error(
      {.refused = concat("environment variable ", name),
       .rule = most == std::numeric_limits<int64_t>::max()
                   ? concat("a whole number of at least ", least, " is needed")
                   : concat("a whole number from ", least, " to ", most, " is needed"),
       .value = concat(name, "=", *text),
       .hint = "start the program with `muster run` or torchrun, which set it"});
}

}  // namespace

std::optional<std::string> process_environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

std::optional<RankEnv> rank_env_from(const EnvLookup& lookup) {
  const bool has_rank = lookup("RANK").has_value();
  if (has_rank != lookup("WORLD_SIZE").has_value()) {
    throw usage_error(
        {.refused = concat(has_rank ? "RANK" : "WORLD_SIZE",
                           " is set and ",
                           has_rank ? "WORLD_SIZE" : "RANK",
                           " is not"),
         .rule = "a launcher sets both",
         .hint = "start the program with `muster run` or torchrun, or unset both to run alone"});
  }
  if (!has_rank) return std::nullopt;

  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  RankEnv env;
  env.world_size = number(lookup, "WORLD_SIZE", 1, 1, kAny);
  env.rank = number(lookup, "RANK", 0, 0, env.world_size - 1);
  env.local_world_size = number(lookup, "LOCAL_WORLD_SIZE", env.world_size, 1, env.world_size);
  env.local_rank =
      number(lookup, "LOCAL_RANK", env.rank % env.local_world_size, 0, env.local_world_size - 1);
  env.group_world_size = number(lookup, "GROUP_WORLD_SIZE", 1, 1, kAny);
  env.group_rank = number(lookup, "GROUP_RANK", 0, 0, env.group_world_size - 1);
  env.role_world_size = number(lookup, "ROLE_WORLD_SIZE", env.world_size, 1, kAny);
  env.role_rank = number(lookup, "ROLE_RANK", env.rank, 0, kAny);
  env.role_name = lookup("ROLE_NAME").value_or(env.role_name);
  env.master_addr = lookup("MASTER_ADDR").value_or(env.master_addr);
  env.master_port = number(lookup, "MASTER_PORT", env.master_port, 1, 65535);
  env.restart_count = number(lookup, "TORCHELASTIC_RESTART_COUNT", 0, 0, kAny);
  env.max_restarts = number(lookup, "TORCHELASTIC_MAX_RESTARTS", 0, 0, kAny);
  env.run_id = lookup("TORCHELASTIC_RUN_ID").value_or(env.run_id);
  env.use_agent_store = lookup("TORCHELASTIC_USE_AGENT_STORE").value_or("False") == "True";
  return env;
}

std::vector<std::pair<std::string, std::string>> to_environment(const RankEnv& env) {
  const auto text = [](int64_t value) { return std::to_string(value); };
  return {{"RANK", text(env.rank)},
          {"WORLD_SIZE", text(env.world_size)},
          {"LOCAL_RANK", text(env.local_rank)},
          {"LOCAL_WORLD_SIZE", text(env.local_world_size)},
          {"GROUP_RANK", text(env.group_rank)},
          {"GROUP_WORLD_SIZE", text(env.group_world_size)},
          {"ROLE_RANK", text(env.role_rank)},
          {"ROLE_WORLD_SIZE", text(env.role_world_size)},
          {"ROLE_NAME", env.role_name},
          {"MASTER_ADDR", env.master_addr},
          {"MASTER_PORT", text(env.master_port)},
          {"TORCHELASTIC_RESTART_COUNT", text(env.restart_count)},
          {"TORCHELASTIC_MAX_RESTARTS", text(env.max_restarts)},
          {"TORCHELASTIC_RUN_ID", env.run_id},
          {"TORCHELASTIC_USE_AGENT_STORE", env.use_agent_store ? "True" : "False"},
          {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
          {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"}};
}

}  // namespace muster
