// Where the processes of a job meet: c10d's TCPStore at MASTER_ADDR:MASTER_PORT.
#pragma once

#include <chrono>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "muster/base/job_key.h"
#include "muster/base/rank_env.h"
#include "muster/distributed/meet/meeting.h"

namespace muster::distributed {

// Note [Where the store listens]
// LibTorch's store listens on all interfaces. If MASTER_ADDR is an address of the machine itself
// (127.0.0.1, localhost: what `muster run` gives a job of one machine), no rank of another one can
// mean this store, and we hand LibTorch a socket that is bound to that address alone. With any other
// MASTER_ADDR it stays with all interfaces: a host may have several addresses, and which one the
// others resolve its name to is not known here. What ranks write there is sealed, if the job has a
// key (Note [Sealed store]).
//
// A process that serves the store does so until it ends, as PyTorch's does until the default group
// is destroyed: a rank may come for the second group of a job while rank 0 still takes the first
// one down. Another job of the process may have the address once the groups of the first are gone.

// Note [Names of meetings]
// Ranks find out whether they are one job by meeting (meeting.h) under a name of which nothing may
// differ between them. Where launchers of several machines each pass on what they were told, that is
// one name for all who come to the port, and their cards lie open: a key may be what differs. Where
// one launcher has given all ranks a name and a key, both are in the name of their meeting, and its
// cards are sealed: ranks of another job, whose launcher picked the same free port in the same
// moment, may come to this store before they hear that their own rank 0 did not get the port, and
// must not disturb who meets here. The store of an agent is the job's alone, and named by its id.

/// As what a rank comes to the others.
struct MeetAs {
  /// The job's, in its text; empty: none.
  std::string key = process_environment(kJobKeyEnv).value_or("");
  std::string program = program_name();  ///< what is started; it is compared
  std::string backend = {};              ///< is compared, unless it is empty
  Waiting waiting = {};                  ///< as for meet(); also of rank 0's silence
};

/// Connects this rank for the next group of its job, and waits for all the others (meeting.h). Rank
/// 0 serves, unless the launcher does (torchrun's agent store); the rest wait for the server. All
/// ranks of a job make the same groups in the same order. Throws: environment error if the port is
/// in use, nothing answers within `timeout`, what is there is no store (Note [Who answers]), or not
/// all ranks come, which those are told who come later; usage error on all ranks if they belong to
/// different jobs, or one was started twice.
c10::intrusive_ptr<c10d::Store> connect_store(const RankEnv& env,
                                              std::chrono::milliseconds timeout,
                                              const MeetAs& as = {});

/// For a rank that makes no group, but explains what it would do, say, as `program`: whoever comes to
/// the meeting of the next group of its job as something else hears so at once, instead of waiting
/// for this rank, and this throws a usage error then. Nobody else may have come within `patience`:
/// nothing happens. Waits no longer than that.
void attend_as(const RankEnv& env, const std::string& program, std::chrono::milliseconds patience);

/// For a rank that ends with an error before it has come to a meeting: the ranks of other machines, which
/// would wait for it, end with `why`, as by attend_as. Nothing if this process has come to one, or has no
/// ranks on other machines: of those of its own the launcher says what has become. Throws nothing.
void end_before_meeting(const std::string& why,
                        std::chrono::milliseconds patience = std::chrono::seconds(3));

}  // namespace muster::distributed
