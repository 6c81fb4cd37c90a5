// Random numbers of one trial, for searchers that need more than a number per dimension.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace muster::tune {

/// A stream of its own for each (seed, purpose, number): what others draw, and in which order,
/// changes nothing in it. `purpose` keeps apart what one searcher draws for the same number; it has
/// 16 bits. Philox, as Space::draw, whose streams these are not.
class DrawStream {
 public:
  DrawStream(uint64_t seed, uint32_t purpose, int64_t number)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        counter_{static_cast<uint32_t>(number),
                 static_cast<uint32_t>(static_cast<uint64_t>(number) >> 32),
                 kTag ^ purpose,
                 0} {}

  double uniform();  ///< in (0, 1), 0 and 1 left out
  double normal();   ///< mean 0, standard deviation 1
  /// One of 0 … count - 1, count at least 1.
  size_t index(size_t count);

 private:
  static constexpr uint32_t kTag = 0xD5A70000;

  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> bits_{};
  bool has_half_ = false;  // of bits_, the second half is not used yet
};

}  // namespace muster::tune
