// What the ranks of a job compare when they meet. Private to the room but for JobCard.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/rank_env.h"

namespace muster::distributed {

/// What one rank was told of its job.
struct JobCard {
  std::string who;  ///< "rank 2 (process 4711 on host7)"
  /// What must be equal on all ranks that were told, as name and value: {"the run id", "a1"}.
  std::vector<std::pair<std::string, std::string>> facts;
};

/// `program`: what it is called, without its folder. `key`: something that tells keys apart and does
/// not give them away; empty without one. `backend`: which the group shall have; empty: not compared.
JobCard job_card(const RankEnv& env,
                 const std::string& program,
                 const std::string& key,
                 const std::string& backend = "");

/// Empty if the two are cards of one job, else their differences, with both values; the lower rank's is first.
std::string difference(const JobCard& first, const JobCard& other);

/// Lines: who, then "name<tab>value" each; and the reverse.
std::string card_text(const JobCard& card);
JobCard card_from(const std::string& text);

/// The text as a line of a card.
std::string card_line(std::string text);

/// In the name of a program whose rank was refused, or failed, before it met the others
/// (end_before_meeting): the reason follows.
inline constexpr std::string_view kHasEnded = ", which has ended: ";

/// "rank 1 (…) ended before the meeting: …" of such a card; of others empty.
std::string end_in(const JobCard& card);

}  // namespace muster::distributed
