// The environment variables by which a launcher tells a process its rank. torchrun's names and
// meanings, so that either launcher starts either program. Both sides, `launch` and `parallel`,
// read the names from here and nowhere else.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {

/// Extra variables of Muster's own launcher.
inline constexpr std::string_view kProgressFdEnv = "MUSTER_PROGRESS_FD";

/// One process's place in a job. "Group" is torchrun's word for a node here (the set of ranks under
/// one agent).
struct RankEnv {
  int64_t rank = 0;                       ///< RANK: 0 … world_size-1 over all nodes
  int64_t world_size = 1;                 ///< WORLD_SIZE
  int64_t local_rank = 0;                 ///< LOCAL_RANK: 0 … local_world_size-1 on this node
  int64_t local_world_size = 1;           ///< LOCAL_WORLD_SIZE
  int64_t group_rank = 0;                 ///< GROUP_RANK: the node
  int64_t group_world_size = 1;           ///< GROUP_WORLD_SIZE: number of nodes
  int64_t role_rank = 0;                  ///< ROLE_RANK
  int64_t role_world_size = 1;            ///< ROLE_WORLD_SIZE
  std::string role_name = "default";      ///< ROLE_NAME
  std::string master_addr = "127.0.0.1";  ///< MASTER_ADDR
  int64_t master_port = 29500;            ///< MASTER_PORT
  int64_t restart_count = 0;              ///< TORCHELASTIC_RESTART_COUNT
  int64_t max_restarts = 0;               ///< TORCHELASTIC_MAX_RESTARTS
  std::string run_id = "none";            ///< TORCHELASTIC_RUN_ID
  bool use_agent_store = false;  ///< TORCHELASTIC_USE_AGENT_STORE: the launcher serves the store,
                                 ///< all ranks are clients
};

/// Looks a variable up; nothing if it is not set. `process_environment` asks getenv.
using EnvLookup = std::function<std::optional<std::string>(std::string_view name)>;
std::optional<std::string> process_environment(std::string_view name);

/// Nothing if neither RANK nor WORLD_SIZE is set: the program was started alone. Throws a usage
/// error for half of the pair, text that is not a number, a world size below 1, a rank outside 0 …
/// world_size-1, or a port outside 1 … 65535.
std::optional<RankEnv> rank_env_from(const EnvLookup& lookup = process_environment);

/// Every variable that torchrun sets for a worker, with its value for this rank.
std::vector<std::pair<std::string, std::string>> to_environment(const RankEnv& env);

}  // namespace muster
