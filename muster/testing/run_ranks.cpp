#include "muster/testing/run_ranks.h"

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::testing {
namespace {

std::exception_ptr with_rank(int rank, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& ours) {
    ErrorText text = ours.text();
    text.refused = concat("rank ", rank, ": ", text.refused);
    return std::make_exception_ptr(Error(ours.kind(), text));
  } catch (...) {
    return std::current_exception();
  }
}

std::string reason(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace

void run_ranks(int world_size,
               const std::function<void(parallel::ProcessGroup group)>& rank_main,
               RankOptions options) {
  const parallel::ThreadWorld world(
      world_size, options.timeout, options.backend, options.hosts, options.watch);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      try {
        rank_main(world.group(rank));
        world.leave(rank, "");
      } catch (...) {
        {
          // Recorded before the others are released, so that their follow-up errors come second.
          const std::lock_guard lock(mutex);
          if (!first) first = with_rank(rank, std::current_exception());
        }
        world.leave(rank, reason(std::current_exception()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace muster::testing
