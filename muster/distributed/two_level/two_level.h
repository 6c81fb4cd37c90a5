// One group over several hosts: shared memory inside each, another backend between them.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "muster/distributed/call/op_queue.h"
#include "muster/distributed/call/posting_backend.h"
#include "muster/distributed/meet/backend.h"

namespace muster::distributed {

// Note [Two levels]
// The first rank of each host is its leader. A reduction sums inside each host, then between the
// leaders, then tells the host: each byte crosses the network once per host and not once per rank.
// Broadcast and all-gather go the same way. Gather, scatter and all-to-all, where every byte is for
// one rank only, take a third group of all ranks between hosts. Messages go inside where both sides
// are on one host.
//
// Every operation begins with an agreement: the ranks of a host show each other what they were
// called with, the leaders compare, and each host hears the verdict. Ranks that disagree are named
// with shapes on all hosts, at the price of one small message between leaders. A barrier is nothing
// but that. Who fails writes why into the store before it closes its connections, and whoever loses
// a connection looks there first, so that a dead rank is named on other hosts, too. Where nobody is
// left to write it (a host is gone with all its ranks), the monitor's heartbeats tell who it was.
//
// Sums are in rank order inside a host. Between, they are in the order of the other backend, which
// for gloo's ring differs from part to part of a tensor from three hosts on. So they are the same
// on all ranks and from run to run, but not bit-equal to those of `thread` and `shm`.
//
// An operation's timeout holds between hosts. Inside it is half as long again: a leader may wait
// for other hosts for the whole of it, and those whom it leads are to hear from it who is missing.

/// The ranks by host, hosts in the order of their first rank.
std::vector<std::vector<int>> hosts_of(const std::vector<std::string>& identities);

/// Who talks to whom. Entries of `inside` and `between` make the parts.
class TwoLevelBackend final : public PostingBackend {
 public:
  /// Collective. Throws BackendUnfit on all ranks alike if a host's part cannot be made.
  TwoLevelBackend(const BackendRequest& request,
                  const std::vector<std::vector<int>>& hosts,
                  const BackendEntry& inside,
                  const BackendEntry& between);
  ~TwoLevelBackend() override;

  void abort() override { close("the group was aborted"); }
  void shutdown() override { close("the group was shut down"); }
  void setTimeout(std::chrono::milliseconds timeout) override;

  void end_in_order() override;

 protected:
  WorkPtr post(uint64_t sequence, Contribution part) override;
  WorkPtr post_send(const Message& message) override;
  /// From any rank: refused, a message may come through either of two backends.
  WorkPtr post_receive(const Message& message) override;

 private:
  class Run;
  struct Parts;
  void close(const std::string& reason);

  std::shared_ptr<Parts> parts_;
  std::shared_ptr<OpQueue> queue_;
  const int exceptions_ = std::uncaught_exceptions();  // on their way when the group was made
};

}  // namespace muster::distributed
