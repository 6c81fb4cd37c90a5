#include "muster/testing/run_ranks.h"

#include <exception>
#include <utility>

namespace muster::testing {

void run_ranks(int world_size,
               const std::function<void(distributed::ProcessGroup group)>& rank_main,
               RankOptions options) {
  distributed::ThreadWorld(
      world_size, options.timeout, options.backend, options.hosts, options.monitor)
      .run(rank_main);
}

std::vector<std::string> rank_errors(
    int world_size,
    const std::function<void(distributed::ProcessGroup group)>& rank_main,
    RankOptions options) {
  std::vector<std::string> errors(static_cast<size_t>(world_size));
  run_ranks(
      world_size,
      [&](distributed::ProcessGroup group) {
        try {
          rank_main(group);
        } catch (const std::exception& error) {
          errors[static_cast<size_t>(group.rank())] = error.what();
        }
      },
      std::move(options));
  return errors;
}

}  // namespace muster::testing
