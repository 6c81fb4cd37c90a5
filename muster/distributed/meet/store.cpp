#include "muster/distributed/meet/store.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "muster/base/ended_ranks.h"
#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/diagnose/record/failure_note.h"
#include "muster/distributed/meet/address.h"
#include "muster/distributed/meet/answer_limit.h"
#include "muster/distributed/meet/meeting.h"
#include "muster/distributed/meet/sealed_store.h"

namespace muster::distributed {
namespace {

using Clock = std::chrono::steady_clock;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

/// Whose store it is: who serves it writes the job there before anything else.
constexpr const char* kServedJob = "muster/serves";
/// A process that has been in a group of the job knows that rank 0 was there: so long it looks for it,
/// should it only be between two jobs of its own.
constexpr auto kBetweenJobs = std::chrono::seconds(2);
/// So often a server may go while it is asked whose it is: once for each job that ends there. More often
/// it is no store.
constexpr int kLosses = 8;
/// So long c10d's client tries to connect to a store that has just answered. It looks at nothing else
/// meanwhile: should the server go in this instant, it would be tried until all patience is over.
constexpr auto kConnecting = std::chrono::seconds(3);

[[noreturn]] void refuse_silence(const RankEnv& env, FoundStore found) {
  throw environment_error(
      {.refused = concat("no answer from rank 0 at ", env.master_addr, ":", env.master_port),
       .rule = found == FoundStore::kClosed
                   ? "rank 0 serves the store there, but whoever accepts connections there closes "
                     "them at once"
                   : "rank 0 serves the store there",
       .hint = "check that rank 0 was started, and MASTER_ADDR and MASTER_PORT"});
}

[[noreturn]] void refuse_port(const RankEnv& env, const std::string& rule) {
  throw environment_error({.refused = concat("port ", env.master_port, " is in use"),
                           .rule = rule,
                           .hint = "another job or a second rank 0 has it; choose another "
                                   "MASTER_PORT (--master-port)"});
}

[[noreturn]] void refuse_store(const RankEnv& env,
                               const char* what_failed,
                               const std::exception& error) {
  const std::string text = error.what();
  throw environment_error(
      {.refused =
           concat("cannot ", what_failed, " the store at ", env.master_addr, ":", env.master_port),
       .rule = first_line(text)});
}

c10d::TCPStoreOptions store_options(const RankEnv& env, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(env.master_port);
  options.waitWorkers = false;
  options.timeout = timeout;
  return options;
}

StorePtr serve_store(const RankEnv& env, std::chrono::milliseconds timeout) {
  const std::string serves = "rank 0 serves the store of the job there";
  const auto deadline = Clock::now() + timeout;
  if (!may_serve_at(env.master_addr, env.master_port, {.until = deadline, .deadline = deadline}))
    refuse_port(env, serves);
  // Of its connection to itself, which is slow where the machine is, whatever the patience with others.
  constexpr std::chrono::minutes kOwnConnection(1);
  c10d::TCPStoreOptions options =
      store_options(env, std::max<std::chrono::milliseconds>(timeout, kOwnConnection));
  options.isServer = true;
  if (UniqueFd own = loopback_socket(env); own)
    options.masterListenFd = own.release();  // the server closes it
  try {
    return c10::make_intrusive<c10d::TCPStore>(env.master_addr, options);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    if (text.find("EADDRINUSE") != std::string::npos || text.find("in use") != std::string::npos)
      refuse_port(env, serves);
    refuse_store(env, "serve", error);
  }
}

/// Throws what c10d throws, also if the store is silent until the deadline.
StorePtr open_store(const RankEnv& env, Clock::time_point deadline) {
  const auto left = std::max(std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()),
                             std::chrono::milliseconds(1));
  const StorePtr store = c10::make_intrusive<c10d::TCPStore>(
      env.master_addr, store_options(env, std::min<std::chrono::milliseconds>(left, kConnecting)));
  limit_answers(*store, left);
  return store;
}

/// What this process has of the jobs that it takes part in; as a rule one, and one rank of it.
struct Jobs {
  struct Served {
    std::string job;
    StorePtr server;                                         // until the process ends
    std::vector<c10::weak_intrusive_ptr<c10d::Store>> lent;  // to groups of the job
  };
  std::mutex mutex;
  std::map<std::string, Served> served;  // by address
  std::map<std::string, int64_t> groups;

  static Jobs& of_process() {
    static Jobs jobs;
    return jobs;
  }

  static std::string address_of(const RankEnv& env) {
    return concat(env.master_addr, ':', env.master_port);
  }

  /// Another job at the same address takes the place of one that has no group any more.
  StorePtr serve(const RankEnv& env, const std::string& job, std::chrono::milliseconds timeout) {
    const std::lock_guard lock(mutex);
    Served& at = served[address_of(env)];
    std::erase_if(at.lent, [](const auto& store) { return store.expired(); });
    if (at.server && at.job != job) {
      if (!at.lent.empty()) refuse_port(env, "this process serves the store of another job there");
      at.server = nullptr;
    }
    if (!at.server) {
      at.server = serve_store(env, timeout);
      at.server->set(kServedJob, job);
    }
    at.job = job;
    const StorePtr client = at.server->clone();
    client->setTimeout(timeout);
    at.lent.emplace_back(client);
    return client;
  }

  int64_t next_group(const RankEnv& env, const std::string& job) {
    const std::lock_guard lock(mutex);
    return groups[place_in(env, job)]++;
  }

  /// This process has met the others of the job there, as this rank.
  bool was_in(const RankEnv& env, const std::string& job) {
    const std::lock_guard lock(mutex);
    return groups.contains(place_in(env, job));
  }

  bool is_empty() {
    const std::lock_guard lock(mutex);
    return groups.empty();
  }

  static std::string place_in(const RankEnv& env, const std::string& job) {
    return concat(address_of(env), '\n', job, '\n', env.rank);
  }
};

StorePtr prefixed(const std::string& prefix, StorePtr store) {
  return c10::make_intrusive<c10d::PrefixStore>(prefix, std::move(store));
}

/// Half of a tag in hexadecimal digits: names things, and gives no seal away.
std::string shortened(uint64_t tag) {
  std::ostringstream text;
  text << std::hex << (tag >> 32);
  return text.str();
}

/// What there is to say if rank 0 has ended.
[[noreturn]] void refuse_end_of_rank_zero(const RankEnv& env, bool was_here) {
  const std::string& at = Jobs::address_of(env);
  const Error error =
      was_here ? environment_error({.refused = "the store of the job is gone",
                                    .rule = concat("rank 0, which served it at ",
                                                   at,
                                                   " for groups that this rank was in, has ended"),
                                    .hint = "all ranks make the same groups; look at what rank 0 "
                                            "or its launcher says"})
               : environment_error(
                     {.refused = concat("no answer from rank 0 at ", at),
                      .rule = "it has ended before this rank met it",
                      .hint = "all ranks make the same groups, from the same command line; look at "
                              "what rank 0 says"});
  diagnose::note_failure_of_peers(error.what(), {0});
  throw error;
}

/// Waits for the server of another job to go, of which this process was a part: its rank 0 is about to
/// serve the next one there. Throws an environment error at the deadline.
void await_end_of(const std::string& other, c10d::Store& store, Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  try {
    store.wait({"muster/end"}, std::max(left, std::chrono::milliseconds(1)));
  } catch (const c10::DistNetworkError&) {
    return;
  } catch (const std::exception&) {
    throw environment_error(
        {.refused = "rank 0 did not come to the meeting of ranks",
         .rule = concat(
             "it still serves the job ", other.substr(0, other.rfind('/')), " at this address"),
         .hint = "it holds groups of that job; drop them, or choose another "
                 "address"});
  }
}

/// As wait_for_store; tells `waiting` that it takes long.
FoundStore await_store(const RankEnv& env, const StoreSearch& search, const Waiting& waiting) {
  const auto found_by = [&](Clock::time_point until) {
    StoreSearch part = search;
    part.until = until;
    return wait_for_store(env.master_addr, env.master_port, part);
  };
  const auto patient = Clock::now() + waiting.after;
  if (!waiting.say || patient >= search.until) return found_by(search.until);
  const FoundStore found = found_by(patient);
  if (found == FoundStore::kYes || search.is_over()) return found;
  const auto left = std::chrono::ceil<std::chrono::seconds>(search.until - Clock::now());
  waiting.say(concat("no answer from rank 0 at ",
                     Jobs::address_of(env),
                     " yet; waiting for ",
                     left.count(),
                     " s more at most"));
  return found_by(search.until);
}

/// The times that a server was gone when it was asked again.
struct Losses {
  int count = 0;

  /// Throws an environment error if it is no use to look again. Who has tried for all of kConnecting may
  /// have met a busy machine: only the deadline ends that.
  void add(const RankEnv& env,
           const std::exception& lost,
           Clock::time_point asked,
           Clock::time_point deadline) {
    if (Clock::now() - asked < kConnecting) ++count;
    if (count == kLosses || Clock::now() >= deadline) refuse_store(env, "reach", lost);
  }
};

StorePtr agents_store(const RankEnv& env, Clock::time_point deadline, const Waiting& waiting) {
  Losses losses;
  while (true) {
    const FoundStore found = await_store(env, {.until = deadline, .deadline = deadline}, waiting);
    if (found != FoundStore::kYes) refuse_silence(env, found);
    const auto asked = Clock::now();
    try {
      return open_store(env, deadline);
    } catch (const c10::DistNetworkError& lost) {
      losses.add(env, lost, asked, deadline);
    } catch (const std::exception& error) {
      refuse_store(env, "reach", error);
    }
  }
}

/// Returns once a store answers at the job's address.
void await_rank_zero(const RankEnv& env,
                     bool was_here,
                     Clock::time_point deadline,
                     const Waiting& waiting) {
  const auto patience = was_here ? std::min(deadline, Clock::now() + kBetweenJobs) : deadline;
  const auto is_over = [&] { return has_ended(env.master_port, 0); };
  const FoundStore found =
      await_store(env, {.until = patience, .deadline = deadline, .is_over = is_over}, waiting);
  if (found == FoundStore::kYes) return;
  if (was_here || is_over()) refuse_end_of_rank_zero(env, was_here);
  refuse_silence(env, found);
}

/// The store of this job: not one that rank 0 served for the job before, which may go at any moment, also
/// while it is asked.
StorePtr reach_store(const RankEnv& env,
                     const std::string& job,
                     Clock::time_point deadline,
                     const Waiting& waiting) {
  Jobs& jobs = Jobs::of_process();
  const bool was_here = jobs.was_in(env, job);
  Losses losses;
  while (true) {
    await_rank_zero(env, was_here, deadline, waiting);
    const auto asked = Clock::now();
    try {
      const StorePtr store = open_store(env, deadline);
      const std::string served = store->compareSet(kServedJob, std::string(), std::string());
      if (served.empty() || served == job || !jobs.was_in(env, served)) return store;
      await_end_of(served, *store, deadline);
    } catch (const c10::DistNetworkError& lost) {
      losses.add(env, lost, asked, deadline);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      refuse_store(env, "reach", error);
    }
  }
}

/// One launcher has told all ranks everything, the key among it, which nobody else has. Who starts
/// ranks by hand gives no run id.
bool is_of_one_launcher(const RankEnv& env) {
  return env.group_world_size == 1 && env.local_world_size == env.world_size &&
         env.run_id != RankEnv{}.run_id;
}

}  // namespace

StorePtr connect_store(const RankEnv& env, std::chrono::milliseconds timeout, const MeetAs& as) {
  std::optional<JobKey> key;
  if (!as.key.empty()) key = JobKey::parse(as.key);
  const bool serves = env.rank == 0 && !env.use_agent_store;
  const auto deadline = Clock::now() + timeout;
  const std::string mark = key ? shortened(key->tag("job")) : "";
  const std::string job = concat(env.run_id, '/', mark);
  const StorePtr open = serves                ? Jobs::of_process().serve(env, job, timeout)
                        : env.use_agent_store ? agents_store(env, deadline, as.waiting)
                                              : reach_store(env, job, deadline, as.waiting);
  open->setTimeout(timeout);
  if (!serves) limit_answers(*open, timeout);
  const std::string print = key ? shortened(key->tag("print")) : "";
  StorePtr sealed = open;
  if (key) sealed = c10::make_intrusive<SealedStore>(open, *key);
  const int64_t group = Jobs::of_process().next_group(env, job);
  HasEnded ends;
  if (process_environment(kEndedRanksEnv))
    ends = [&](int64_t rank) { return has_ended(env.master_port, rank); };
  // See Note [Names of meetings].
  const bool by_key = key && is_of_one_launcher(env);
  const std::string meeting = by_key                ? "muster/" + job
                              : env.use_agent_store ? "muster/" + env.run_id
                                                    : "muster";
  const int64_t round = meet(*prefixed(concat(meeting, "/meeting/", group), by_key ? sealed : open),
                             env.rank,
                             env.world_size,
                             job_card(env, as.program, print, as.backend),
                             timeout,
                             serves                ? StoreServer::kThisProcess
                             : env.use_agent_store ? StoreServer::kLauncher
                                                   : StoreServer::kRankZero,
                             ends,
                             as.waiting);
  if (!serves) limit_answers(*open, std::chrono::milliseconds(0));
  return prefixed(concat("muster/", env.run_id, '/', round, '/', mark, '/', group), sealed);
}

void attend_as(const RankEnv& env, const std::string& program, std::chrono::milliseconds patience) {
  try {
    connect_store(env, patience, {.program = program});
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUsage) throw;
  }
}

void end_before_meeting(const std::string& why, std::chrono::milliseconds patience) {
  try {
    const std::optional<RankEnv> env = rank_env_from();
    if (!env || env->group_world_size == 1 || !Jobs::of_process().is_empty()) return;
    attend_as(*env, concat(program_name(), kHasEnded, why), patience);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): heard, or none can be reached
  }
}

}  // namespace muster::distributed
