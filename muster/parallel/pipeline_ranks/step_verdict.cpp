#include "muster/parallel/pipeline_ranks/step_verdict.h"

#include <bit>
#include <chrono>

#include <ATen/ops/from_blob.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/peer_failure.h"
#include "muster/tensor/what_of.h"

namespace muster::parallel {

RankFailure failure_now(bool let_down) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {std::current_exception(), let_down, std::chrono::duration<double>(now).count()};
}

std::vector<std::vector<int64_t>> agree(const distributed::ProcessGroup& group,
                                        const std::string& what,
                                        const std::vector<int64_t>& words,
                                        const std::optional<RankFailure>& failure) {
  // In front of the words: has failed, was let down, when.
  std::vector<int64_t> mine{failure.has_value(),
                            failure && failure->let_down,
                            failure ? std::bit_cast<int64_t>(failure->time) : 0};
  mine.insert(mine.end(), words.begin(), words.end());
  constexpr int64_t kFront = 3;
  const at::Tensor all =
      group.all_gather(at::from_blob(mine.data(), std::ssize(mine), at::kLong).to(group.device()))
          .cpu();
  std::vector<std::vector<int64_t>> by_rank;
  int culprit = -1;
  bool culprit_let_down = false;
  double first = 0;
  for (int rank = 0; rank < group.world_size(); ++rank) {
    const int64_t* theirs = all.const_data_ptr<int64_t>() + rank * std::ssize(mine);
    by_rank.emplace_back(theirs + kFront, theirs + std::ssize(mine));
    if (theirs[0] == 0) continue;
    const bool let_down = theirs[1] != 0;
    const double time = std::bit_cast<double>(theirs[2]);
    const bool before = culprit < 0 || (culprit_let_down && !let_down) ||
                        (culprit_let_down == let_down && time < first);
    if (!before) continue;
    culprit = rank;
    culprit_let_down = let_down;
    first = time;
  }
  if (culprit < 0) return by_rank;
  const std::vector<std::string> texts =
      group.all_gather_text(failure ? tensor::what_of(failure->error) : "");
  if (failure && (!failure->let_down || culprit == group.rank()))
    std::rethrow_exception(failure->error);
  const int in_world = group.world_rank(culprit);
  const distributed::PeerFailure told(environment_error(
      {.refused = what,
       .rule = concat("rank ",
                      culprit,
                      in_world == culprit ? "" : concat(" (rank ", in_world, " of the world)"),
                      " failed: ",
                      texts[static_cast<size_t>(culprit)])}));
  group.note_told_failure(culprit, told.what());
  throw told;
}

}  // namespace muster::parallel
