// Random numbers for one suggestion.
#pragma once

#include <cstdint>

#include "muster/base/philox.h"

namespace muster::tune {

/// Numbers inside (0, 1), a function of seed, trial and how many were taken before: not of how
/// other trials went. DrawStream (draw_stream.h) counts otherwise: with that one every draw of TPE would
/// be another, and the measured figures those of another program.
class RandomStream {
 public:
  RandomStream(uint64_t seed, int64_t trial) : seed_(seed), trial_(static_cast<uint64_t>(trial)) {}

  double next() {
    constexpr uint32_t kTpeStream = 0x79E5;
    if (left_ == 0) {
      bits_ = philox4x32_10({low(trial_), high(trial_), count_++, kTpeStream},
                            {low(seed_), high(seed_)});
      left_ = 2;
    }
    --left_;
    const uint64_t word = uint64_t{bits_[2 * left_ + 1]} << 32 | bits_[2 * left_];
    return (static_cast<double>(word >> 12) + 0.5) * 0x1p-52;
  }

 private:
  static uint32_t low(uint64_t word) { return static_cast<uint32_t>(word); }
  static uint32_t high(uint64_t word) { return static_cast<uint32_t>(word >> 32); }

  uint64_t seed_, trial_;
  std::array<uint32_t, 4> bits_{};
  uint32_t count_ = 0;
  size_t left_ = 0;
};

}  // namespace muster::tune
