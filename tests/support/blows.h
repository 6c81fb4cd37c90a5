// What the tests under SIGKILL share: how many blows fall, and draws that leave no phase out.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include "tests/support/seed.h"

namespace muster::test {

/// How many blows a test deals that deals `all` of them where time does not count. `make test`: a
/// dozen. MUSTER_BLOWS=all, as `make nightly` and `make soak` set it: all; MUSTER_BLOWS=30: so many.
inline int count_of_blows(int all) {
  const char* given = std::getenv("MUSTER_BLOWS");
  if (given == nullptr) return std::min(all, 12);
  return std::string_view(given) == "all" ? all : std::max(1, std::atoi(given));
}

/// Random draws from `count` equal parts of a whole, of which each `count` in a row hit every part
/// once, in random order: a dozen of them leave no part out, as independent ones would.
class Spread {
 public:
  /// `random` must live as long.
  Spread(int count, std::mt19937& random) : count_(count), random_(random) {}

  /// Which part: 0 to count - 1.
  int part() {
    if (left_.empty()) {
      left_.resize(size_t(count_));
      std::iota(left_.begin(), left_.end(), 0);
      std::shuffle(left_.begin(), left_.end(), random_);
    }
    const int drawn = left_.back();
    left_.pop_back();
    return drawn;
  }

  /// A point in a part, as a share of the whole: 0 to 1.
  double share() {
    return (part() + std::uniform_real_distribution<double>(0, 1)(random_)) / count_;
  }

 private:
  int count_;
  std::mt19937& random_;
  std::vector<int> left_;
};

}  // namespace muster::test
