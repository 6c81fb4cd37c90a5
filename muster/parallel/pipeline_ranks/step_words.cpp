#include "muster/parallel/pipeline_ranks/step_words.h"

#include <map>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::parallel {

int64_t common_word(const std::vector<std::vector<int64_t>>& all,
                    StepWord word,
                    int64_t unknown,
                    const std::string& what) {
  int64_t common = unknown;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const int64_t theirs = all[rank][word];
    if (theirs == unknown) continue;
    if (common != unknown && common != theirs)
      throw usage_error({.refused = "the ranks of a pipeline are not at the same step",
                         .rule = concat("all give the same ", what),
                         .value = word == kScale
                                      ? concat("rank ", rank, " another one")
                                      : concat(common, ", and ", theirs, " on rank ", rank)});
    common = theirs;
  }
  return common;
}

std::vector<std::vector<std::vector<int64_t>>> by_pipeline(
    const std::vector<std::vector<int64_t>>& all) {
  std::map<int64_t, std::vector<std::vector<int64_t>>> found;
  for (const std::vector<int64_t>& words : all) found[words[kPipeline]].push_back(words);
  std::vector<std::vector<std::vector<int64_t>>> pipelines;
  for (auto& [number, words] : found) pipelines.push_back(std::move(words));
  return pipelines;
}

}  // namespace muster::parallel
