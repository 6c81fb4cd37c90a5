// A TPE searcher that is asked and told by a test.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/tune/search/searcher.h"

#include "tests/support/numbers.h"

namespace muster::tune {

inline std::unique_ptr<Searcher> make_tpe(const Space& space,
                                          const std::string& spec,
                                          uint64_t seed = 1) {
  return make_searcher(spec, {.space = space, .seed = seed, .num_samples = -1});
}

inline Point open_point(const Space& space) { return Point(space.dimensions().size(), test::kNan); }

/// Tells `trials` trials with the scores that `score` gives, and returns the points.
template <class Score>
std::vector<Point> search(const Space& space, Searcher& searcher, int64_t trials, Score score) {
  std::vector<Point> points;
  for (int64_t number = 0; number < trials; ++number) {
    const auto suggestion = searcher.suggest(number, open_point(space));
    points.push_back(space.with_conditions(suggestion.point));
    searcher.suggested(number, points.back(), suggestion.memo);
    searcher.told({.number = number, .point = points.back(), .score = score(points.back())});
  }
  return points;
}

}  // namespace muster::tune
