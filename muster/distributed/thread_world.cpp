// ThreadWorld::run: a thread per rank.
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <c10/core/AutogradState.h>
#include <c10/util/Exception.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/own_failure.h"
#include "muster/distributed/process_group.h"
#include "muster/distributed/thread/thread_groups.h"
#include "muster/distributed/thread/told_failure.h"
#include "muster/tensor/intraop_threads.h"
#include "muster/tensor/what_of.h"

namespace muster::distributed {
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

}  // namespace

void ThreadWorld::run(const std::function<void(ProcessGroup)>& rank_main,
                      int intraop_threads,
                      const Overdue& overdue) const {
  exchange_
      ->shared<ThreadGroups>("groups", [&] { return std::make_shared<ThreadGroups>(world_size()); })
      ->begin_again();
  std::mutex mutex;  // of all that follows
  std::condition_variable changed;
  std::exception_ptr first, first_told;
  std::set<int> running;
  const auto play = [&](int rank) {
    tensor::set_own_intraop_threads(intraop_threads);
    // LibTorch's engine has one thread for each device, in which the backwards of ranks that share it
    // would stand behind each other: the first waits there for the second one's gradients.
    c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
    // Dropped after the error is kept: the others fail when it is, and come second.
    std::optional<ProcessGroup> mine;
    try {
      mine.emplace(group(rank));
      rank_main(*mine);
      leave(rank, "");
    } catch (...) {
      const std::exception_ptr error = error_of_rank(rank);
      const std::string& told = told_failure_of_thread();
      const bool was_told = !told.empty() && tensor::what_of(error).find(told) != std::string::npos;
      {
        // Kept before the others are released, so that their follow-up errors come second. What a
        // rank was told of another comes second, whoever is quicker.
        const std::lock_guard lock(mutex);
        std::exception_ptr& kept = was_told ? first_told : first;
        if (!kept) kept = error;
        changed.notify_all();
      }
      if (mine) record_failure(*mine, tensor::what_of(error));
      leave(rank, tensor::what_of(error));
    }
    mine.reset();
    const std::lock_guard lock(mutex);
    running.erase(rank);
    changed.notify_all();
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(world_size()));
  for (int rank = 0; rank < world_size(); ++rank) running.insert(rank);
  for (int rank = 0; rank < world_size(); ++rank) threads.emplace_back(play, rank);
  if (overdue.tell) {
    std::unique_lock lock(mutex);
    const auto all_ended = [&] { return running.empty(); };
    changed.wait(lock, [&] { return all_ended() || first || first_told; });
    if (!changed.wait_for(lock, overdue.patience, all_ended)) {
      const std::vector<int> late(running.begin(), running.end());
      const std::exception_ptr error = first ? first : first_told;
      lock.unlock();
      overdue.tell(late, error);
    }
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
  if (first_told) std::rethrow_exception(first_told);
}

}  // namespace muster::distributed
