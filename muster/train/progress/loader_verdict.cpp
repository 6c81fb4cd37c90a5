#include "muster/train/progress/loader_verdict.h"

#include <algorithm>
#include <cmath>

#include "muster/base/text.h"

namespace muster::train {
namespace {

constexpr double kLeastWaitedS = 1;  // else it is a run that is only tried

std::string count_of(int64_t number, std::string_view what) {
  return concat(number, ' ', what, number == 1 ? "" : "s");
}

std::string advice(const LoaderPlace& place) {
  const int64_t fitting = data::default_workers(place.cores, place.local_ranks);
  const std::string now =
      concat(count_of(place.workers, "worker"),
             place.local_ranks > 1 ? " of each rank" : "",
             ", ",
             count_of(place.cores, "core"),
             place.local_ranks > 1 ? concat(" for ", place.local_ranks, " ranks") : "");
  if (place.workers < fitting) return concat("try --workers ", fitting, " (now ", now, ')');
  return concat("the cores are taken (",
                now,
                "): store smaller images or decoded samples, or make --train-transform cheaper");
}

}  // namespace

size_t longest_wait(const std::vector<data::LoaderStats>& ranks) {
  const auto longest = std::ranges::max_element(ranks, {}, &data::LoaderStats::waiting_share);
  return static_cast<size_t>(longest - ranks.begin());
}

std::string loader_verdict(const std::vector<data::LoaderStats>& ranks, const LoaderPlace& place) {
  if (ranks.empty()) return "";
  const size_t rank = longest_wait(ranks);
  const data::LoaderStats& longest = ranks[rank];
  if (!longest.loader_bound() || longest.waited_s - longest.first_wait_s < kLeastWaitedS) return "";
  const std::string who = ranks.size() > 1 ? concat(" of rank ", rank) : std::string();
  return concat("loader-bound: steps",
                who,
                " waited for batches in ",
                std::lround(100 * longest.waiting_share()),
                "% of the time: ",
                advice(place));
}

}  // namespace muster::train
