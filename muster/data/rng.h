// Random numbers of one sample.
#pragma once

#include <array>
#include <cstdint>

#include "muster/data/dataset.h"

namespace muster::data {

// Note [Random numbers]
// What is random about a sample is a function of four numbers: the run's seed, the epoch, the
// sample's index in its dataset, and the position of the step that draws in the sample's chain of
// them. Each of these has a stream of numbers of its own, Philox's for a key and a counter that are
// put together from the four, so no two share a number; nobody's order matters, and nothing has to
// be stored to resume. The counter's four words are: the number of the block of four draws; the low
// half of the index; the epoch; 16 more bits of the index, then 16 of the position. The key is the
// seed. The chain that is nearest to the loader has the first positions, and a dataset that draws
// itself the next one (SampleContext::position).

/// The numbers of one sample in one step. A value: copy it to draw the same numbers again. Another
/// machine draws the same ones; normal() rounds as its C library does.
class Rng {
 public:
  /// `epoch` below 2^32, `index` below 2^48, `position` below 2^16: what is above is cut off.
  Rng(uint64_t seed, int64_t epoch, int64_t index, int64_t position = 0);
  /// For a dataset that draws itself.
  Rng(const SampleContext& context, int64_t index)
      : Rng(context.seed, context.epoch, index, context.position) {}

  uint32_t bits32();
  uint64_t bits64();  ///< two draws, the first one high

  /// 0 … 1, without 1: 53 bits of bits64().
  double uniform();
  /// low … high, without high but for rounding.
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// True with probability `p`.
  bool chance(double p) { return uniform() < p; }
  /// 0 … count-1, each as likely as any other; `count` is at least 1.
  int64_t below(int64_t count);
  /// Of mean 0 and deviation 1 (Box, Muller 1958).
  double normal();

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_{};
  unsigned used_ = 4;  // of the block
};

}  // namespace muster::data
