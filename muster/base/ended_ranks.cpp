#include "muster/base/ended_ranks.h"

#include <string>
#include <system_error>

#include "muster/base/rank_env.h"
#include "muster/base/text.h"

namespace muster {

std::filesystem::path ended_mark(const std::filesystem::path& folder,
                                 int64_t master_port,
                                 int64_t rank) {
  return folder / concat(master_port, '-', rank);
}

bool has_ended(int64_t master_port, int64_t rank) {
  const std::string folder = process_environment(kEndedRanksEnv).value_or("");
  std::error_code error;
  return !folder.empty() && std::filesystem::exists(ended_mark(folder, master_port, rank), error);
}

}  // namespace muster
