// What is in a set of texts, for people. Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "muster/text/corpus/labelled_texts.h"
#include "muster/text/corpus/text_encoder.h"

namespace muster::text {

struct TextSurvey {
  std::vector<std::pair<std::string, int64_t>> classes;  ///< their samples
  int64_t samples = 0;
  int64_t empty = 0;                            ///< texts without a token
  int64_t least = 0, median = 0, greatest = 0;  ///< tokens of a text, not cut
  int64_t longer = 0;                           ///< texts that max_length cuts
  int64_t tokens = 0;                           ///< all, as they are
  int64_t distinct = 0;                         ///< words, of basic_english; else 0
  int64_t vocabulary = 0;                       ///< that these texts give, with special tokens
  int64_t unknown = 0;                          ///< of `tokens`, those that are not in it
  std::vector<std::pair<std::string, int64_t>> frequent;  ///< words and how often; of basic_english

  /// How many times the smallest class the largest one is; 0 without classes.
  double imbalance() const;
};

/// `frequent` words are listed at most.
TextSurvey survey_texts(const LabelledTexts& texts, const LearnOptions& options, size_t frequent);

}  // namespace muster::text
