// Groups of some ranks of a group. See Note [Groups of groups].
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/group_parts.h"
#include "muster/distributed/meet/timeout.h"
#include "muster/distributed/text_calls.h"
#include "muster/distributed/thread/thread_exchange.h"
#include "muster/tensor/what_of.h"

namespace muster::distributed {
namespace {

/// What a rank asks for.
struct Wish {
  int64_t color = 0, key = 0, timeout_ms = 0;
  std::string name;

  std::string text() const { return concat(color, ' ', key, ' ', timeout_ms, ' ', name); }
};

Wish wish_from(const std::string& text) {
  Wish wish;
  size_t at = 0;
  for (int64_t* number : {&wish.color, &wish.key, &wish.timeout_ms}) {
    const size_t end = text.find(' ', at);
    *number = to_int(text.substr(at, end - at)).value_or(0);
    at = end + 1;
  }
  wish.name = text.substr(at);
  return wish;
}

/// By rank. All ranks look at the same wishes, so all refuse them, or none does.
void check_wishes(const std::vector<Wish>& wishes) {
  std::map<int64_t, size_t> first;  // rank of a colour
  for (size_t rank = 0; rank < wishes.size(); ++rank) {
    const Wish& wish = wishes[rank];
    if (wish.color < 0 && wish.color != kNoColor)
      throw usage_error({.refused = "split of a group",
                         .rule = "a colour is 0 or more, or kNoColor",
                         .value = concat("colour ", wish.color, " of rank ", rank)});
    if (wish.timeout_ms < 0)
      throw usage_error({.refused = "split of a group",
                         .rule = "its timeout is 0, the parent's, or 1 ms at least",
                         .value = concat(wish.timeout_ms, " ms of rank ", rank)});
    if (wish.color == kNoColor) continue;
    const Wish& other = wishes[first.emplace(wish.color, rank).first->second];
    if (other.name == wish.name && other.timeout_ms == wish.timeout_ms) continue;
    throw usage_error({.refused = "split of a group",
                       .rule = "ranks of one group give it the same name and timeout",
                       .value = concat("rank ",
                                       first[wish.color],
                                       ": \"",
                                       other.name,
                                       "\", ",
                                       other.timeout_ms,
                                       " ms; rank ",
                                       rank,
                                       ": \"",
                                       wish.name,
                                       "\", ",
                                       wish.timeout_ms,
                                       " ms")});
  }
}

/// The ranks of a colour by key, then by rank.
std::vector<int> members_of(const std::vector<Wish>& wishes, int64_t color) {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < wishes.size(); ++rank)
    if (wishes[rank].color == color) ranks.push_back(static_cast<int>(rank));
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return wishes[static_cast<size_t>(a)].key < wishes[static_cast<size_t>(b)].key;
  });
  return ranks;
}

/// The members' group; `members` are ranks of `parent`.
ProcessGroup make_part(const ProcessGroup::State& parent,
                       const std::vector<int>& members,
                       const Wish& wish,
                       const std::string& path) {
  const auto place = static_cast<int>(
      std::find(members.begin(), members.end(), parent.made_from.rank) - members.begin());
  BackendRequest request = parent.made_from;
  request.store = c10::make_intrusive<c10d::PrefixStore>(path, parent.store);
  request.rank = place;
  request.world_size = static_cast<int>(members.size());
  if (wish.timeout_ms > 0) request.timeout = std::chrono::milliseconds(wish.timeout_ms);
  if (request.exchange) request.exchange = request.exchange->part(path, members, place);
  GroupParts parts(request, parent, members, path, wish.name);
  for (const GroupPart& part : parent.parts) {
    if (part.staged)
      parts.stage(*part.entry, part.kinds[0], part.name);
    else
      parts.add(*part.entry, part.kinds, part.name);
  }
  return parts.group("that of the group it is a part of");
}

/// What went wrong on a rank ends all; empty: nothing.
void require_all_made(const ProcessGroup& group, const std::string& mine) {
  const std::vector<std::string> all = gather_texts_for(TextCall::kSplit, group, mine);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    throw environment_error(
        {.refused = "split of a group",
         .rule = concat("rank ", rank, " could not make its part: ", all[rank])});
  }
}

}  // namespace

std::optional<ProcessGroup> ProcessGroup::split(int64_t color,
                                                int64_t key,
                                                const SplitOptions& options) const {
  const Wish mine{color, key, std::min(options.timeout, kLongestWait).count(), options.name};
  std::vector<Wish> wishes;
  for (const std::string& text : gather_texts_for(TextCall::kSplit, *this, mine.text()))
    wishes.push_back(wish_from(text));
  check_wishes(wishes);
  const int number = state_->splits++;  // of those that all ranks call
  std::optional<ProcessGroup> made;
  std::string why;
  if (color != kNoColor) {
    try {
      Wish wish = mine;
      if (wish.name.empty()) wish.name = concat(state_->monitor.group, ".", number, ".", color);
      made =
          make_part(*state_, members_of(wishes, color), wish, concat("split/", number, "/", color));
    } catch (const std::exception&) {
      why = tensor::what_of(std::current_exception());
    }
  }
  require_all_made(*this, why);
  return made;
}

std::optional<ProcessGroup> ProcessGroup::subgroup(const std::vector<int>& ranks,
                                                   const SplitOptions& options) const {
  std::vector<std::string> words;
  for (const int rank : ranks) words.push_back(std::to_string(rank));
  const std::vector<std::string> all =
      gather_texts_for(TextCall::kSubgroup, *this, join(words, ", "));
  const auto refuse = [](const std::string& rule, const std::string& value) {
    throw usage_error({.refused = "part of a group", .rule = rule, .value = value});
  };
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0])
      refuse("all ranks of the group give the same list of ranks",
             concat("rank 0: ", all[0], "; rank ", rank, ": ", all[rank]));
  }
  std::set<int> different(ranks.begin(), ranks.end());
  const bool fits = !ranks.empty() && different.size() == ranks.size() && *different.begin() >= 0 &&
                    *different.rbegin() < world_size();
  if (!fits)
    refuse(concat("ranks below ", world_size(), ", each of them once"),
           ranks.empty() ? "no rank" : all[0]);
  const auto found = std::find(ranks.begin(), ranks.end(), rank());
  return split(found == ranks.end() ? kNoColor : 0, found - ranks.begin(), options);
}

int ProcessGroup::world_rank(int rank) const {
  if (rank < 0 || rank >= world_size())
    throw usage_error(
        {.refused = concat("rank ", rank), .rule = concat("ranks are 0 to ", world_size() - 1)});
  const std::vector<int>& ranks = state_->world_ranks;
  return ranks.empty() ? rank : ranks[static_cast<size_t>(rank)];
}

}  // namespace muster::distributed
