#include "muster/launch/job/stopped_ranks.h"

#include "muster/base/text.h"
#include "muster/launch/process/failure.h"

namespace muster::launch {

void StoppedRanks::add(int64_t rank, pid_t pid) {
  const PeerLinks links = links_(pid);
  ranks_[rank] = {.pid = pid, .was_linked = links.open + links.closed > 0};
}

std::vector<int64_t> StoppedRanks::look() {
  std::vector<int64_t> left;
  for (auto& [rank, stopped] : ranks_) {
    const PeerLinks links = links_(stopped.pid);
    stopped.looks_alone = stopped.was_linked && links.open == 0 ? stopped.looks_alone + 1 : 0;
    if (stopped.looks_alone >= kLooks) left.push_back(rank);
  }
  return left;
}

std::string left_text(std::span<const int64_t> ranks, double grace_s) {
  const bool one = ranks.size() == 1;
  return concat(ranks_text(ranks),
                one ? " is" : " are",
                " stopped, and the ranks that ",
                one ? "it is" : "they are",
                " connected with have ended: ",
                one ? "it is told to end, and has " : "they are told to end, and have ",
                shortest(grace_s),
                " s for it");
}

std::string late_text(std::span<const int64_t> ranks, double grace_s) {
  return concat(ranks_text(ranks),
                " did not end within ",
                shortest(grace_s),
                " s of the signal: killing ",
                ranks.size() == 1 ? "it" : "them");
}

}  // namespace muster::launch
