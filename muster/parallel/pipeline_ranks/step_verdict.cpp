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

std::optional<RankStall> stall_in(std::span<const pipeline::Span> spans,
                                  std::chrono::milliseconds timeout) {
  std::optional<RankStall> longest;
  const double patience = std::chrono::duration<double>(timeout).count();
  if (patience == 0) return longest;
  for (const pipeline::Span& span : spans) {
    const double took = span.end_s - span.start_s;
    if (took <= (longest ? longest->seconds : patience)) continue;
    longest = RankStall{concat(describe(span.action),
                               ": a stall: it took ",
                               human_duration(took),
                               ", and a message may take ",
                               human_duration(patience)),
                        took};
  }
  return longest;
}

namespace {

/// Why a step is given up, as a rank tells it. What is less is the cause before what is more.
enum Claim { kNone, kFailed, kStalled, kLetDown };

Claim claim_of(const std::optional<RankFailure>& failure, const std::optional<RankStall>& stall) {
  if (failure && !failure->let_down) return kFailed;
  if (stall) return kStalled;
  return failure ? kLetDown : kNone;
}

struct Verdict {
  int rank = -1;  // -1: nobody has failed
  Claim claim = kNone;
};

/// `all`: by rank, has failed, its claim, and when it failed or, as less for more, how long it
/// stalled.
Verdict verdict_on(const at::Tensor& all) {
  Verdict verdict;
  double least = 0;
  bool has_failed = false;
  for (int rank = 0; rank < all.size(0); ++rank) {
    const int64_t* theirs = all.const_data_ptr<int64_t>() + rank * all.size(1);
    has_failed = has_failed || theirs[0] != 0;
    const auto claim = static_cast<Claim>(theirs[1]);
    const double order = std::bit_cast<double>(theirs[2]);
    if (claim == kNone) continue;
    if (verdict.rank >= 0 && (claim > verdict.claim || (claim == verdict.claim && order >= least)))
      continue;
    verdict = {rank, claim};
    least = order;
  }
  return has_failed ? verdict : Verdict();
}

}  // namespace

std::vector<std::vector<int64_t>> agree(const distributed::ProcessGroup& group,
                                        const std::string& what,
                                        const std::vector<int64_t>& words,
                                        const std::optional<RankFailure>& failure,
                                        const std::optional<RankStall>& stall,
                                        std::chrono::milliseconds timeout) {
  const Claim claim = claim_of(failure, stall);
  const double order = claim == kStalled ? -stall->seconds : failure ? failure->time : 0;
  std::vector<int64_t> mine{failure.has_value(), claim, std::bit_cast<int64_t>(order)};
  const auto front = std::ssize(mine);
  mine.insert(mine.end(), words.begin(), words.end());
  const at::Tensor all =
      group
          .all_gather(
              at::from_blob(mine.data(), {1, std::ssize(mine)}, at::kLong).to(group.device()),
              timeout)
          .cpu()
          .view({group.world_size(), std::ssize(mine)});
  const Verdict verdict = verdict_on(all);
  if (verdict.rank < 0) {
    std::vector<std::vector<int64_t>> by_rank;
    for (int rank = 0; rank < group.world_size(); ++rank) {
      const int64_t* theirs = all.const_data_ptr<int64_t>() + rank * std::ssize(mine);
      by_rank.emplace_back(theirs + front, theirs + std::ssize(mine));
    }
    return by_rank;
  }
  const std::vector<std::string> texts = group.all_gather_text(
      claim == kStalled ? stall->text : (failure ? tensor::what_of(failure->error) : ""), timeout);
  const bool is_cause = verdict.rank == group.rank();
  if (claim == kFailed || (is_cause && claim == kLetDown)) std::rethrow_exception(failure->error);
  const std::string& said = texts[static_cast<size_t>(verdict.rank)];
  if (is_cause) throw environment_error({.refused = what, .rule = said});
  const int in_world = group.world_rank(verdict.rank);
  const distributed::PeerFailure told(environment_error(
      {.refused = what,
       .rule = concat("rank ",
                      verdict.rank,
                      in_world == verdict.rank ? "" : concat(" (rank ", in_world, " of the world)"),
                      verdict.claim == kStalled ? " stalled: " : " failed: ",
                      said)}));
  group.note_told_failure(verdict.rank, told.what());
  throw told;
}

}  // namespace muster::parallel
