// Scores in the user's words. Schedulers see scores, where larger is better; users see their
// metric.
#pragma once

#include <string>

#include "muster/tune/space/value.h"

namespace muster::tune {

/// The metric behind a score, with at most six significant digits: score -0.31 of mode min is
/// "0.31".
std::string metric_text(double score, Mode mode);

/// "0.412 < cutoff 0.437" with mode max, "0.52 > cutoff 0.41" with mode min. `score` is the worse
/// one. Digits are added until the two differ.
std::string worse_than_text(double score, double cutoff, Mode mode);

}  // namespace muster::tune
