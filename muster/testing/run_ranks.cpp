#include "muster/testing/run_ranks.h"

namespace muster::testing {

void run_ranks(int world_size,
               const std::function<void(distributed::ProcessGroup group)>& rank_main,
               RankOptions options) {
  distributed::ThreadWorld(
      world_size, options.timeout, options.backend, options.hosts, options.watch)
      .run(rank_main);
}

}  // namespace muster::testing
