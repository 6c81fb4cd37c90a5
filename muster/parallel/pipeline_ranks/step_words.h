// The numbers in which the ranks of a pipeline say what they are about to do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::parallel {

/// What a rank says of a call before it begins, and of which pipeline it is; kWords: how many.
enum StepWord { kPipeline, kStep, kCall, kMicroBatches, kRows, kScale, kTargets, kRoot, kWords };
enum StepCall { kForward, kTrain, kGather };

/// The number in which all ranks agree that know one. `all`: the words by rank. Throws a usage error
/// that names a rank which gives another `what`.
int64_t common_word(const std::vector<std::vector<int64_t>>& all,
                    StepWord word,
                    int64_t unknown,
                    const std::string& what);

/// Of each pipeline, its ranks' words.
std::vector<std::vector<std::vector<int64_t>>> by_pipeline(
    const std::vector<std::vector<int64_t>>& all);

}  // namespace muster::parallel
