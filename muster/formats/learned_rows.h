// What a training learns of rows, and what other rows are read by from then on. Torch-free.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/formats/features.h"

namespace muster::formats {

struct LearnedRows {
  std::string target;
  std::vector<std::string> classes;  ///< none of a measured target
  std::optional<Feature> measured;   ///< of which mean and deviation are learned
  std::vector<Feature> features;

  /// How many numbers the model is given of each row.
  int64_t width() const;
};

/// As JSON, which a run's checkpoints keep.
std::string learned_text(const LearnedRows& learned);

/// The same back. Throws as parse_learned() does.
LearnedRows learned_rows(const std::string& text);

}  // namespace muster::formats
