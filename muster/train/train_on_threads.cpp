// A run whose ranks are threads of this process.
#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/train/trainer.h"

namespace muster::train {
namespace {

/// The error in hand, with the rank in front of ours and behind LibTorch's.
std::exception_ptr error_of_rank(int rank) {
  try {
    throw;
  } catch (const Error& error) {
    ErrorText text = error.text();
    text.refused = concat("rank ", rank, ": ", text.refused);
    return std::make_exception_ptr(Error(error.kind(), text));
  } catch (c10::Error& error) {
    error.add_context(concat("in rank ", rank));
    return std::current_exception();
  } catch (...) {
    return std::current_exception();
  }
}

std::string reason_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& known) {
    return known.what_without_backtrace();
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace

TrainResult train_on_threads(const TrainPlan& plan,
                             const TrainData& data,
                             const std::filesystem::path& output,
                             const std::optional<Checkpoint>& resume,
                             const TrainCallbacks& callbacks) {
  const auto ranks = static_cast<int>(plan.world_size);
  const int threads_per_rank = std::max(1, at::get_num_threads() / ranks);
  const parallel::ThreadWorld world(ranks);
  TrainResult result;
  std::mutex mutex;
  std::exception_ptr first;
  const auto rank_main = [&](int rank) {
    at::set_num_threads(threads_per_rank);
    try {
      TrainResult own = train(plan, data, world.group(rank), output, resume, callbacks);
      if (rank == 0) result = std::move(own);
      world.leave(rank, "");
    } catch (...) {
      const std::exception_ptr error = error_of_rank(rank);
      {
        // Kept before the others are released, so that their follow-up errors come second.
        const std::lock_guard lock(mutex);
        if (!first) first = error;
      }
      world.leave(rank, reason_of(error));
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(rank_main, rank);
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
  return result;
}

}  // namespace muster::train
