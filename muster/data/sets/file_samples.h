// Samples that are files: what they are called, and which of them cannot be read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/data/dataset.h"

namespace muster::data {

/// The name of a sample's file by its number: "cat/1.jpg", "shard-0.tar:cat/1.jpg". Null where samples
/// are no images of files, or of LabelledImages behind more than subsets.
std::function<std::string(int64_t)> file_names(std::shared_ptr<const Dataset> samples);

struct ReadableSamples {
  std::shared_ptr<const Dataset> samples;
  std::vector<std::string> remarks;  ///< a sentence on those that were left out
};

/// The samples without those in whose place another file stands (BadFiles::kSubstitute), for which all of
/// them are decoded; others as they are. Throws an environment error where none is left.
ReadableSamples without_substitutes(std::shared_ptr<const Dataset> samples);

}  // namespace muster::data
