// The kernels of a dimension with a step: few different ones, however many trials there are.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace muster::tune {

/// Kernels of equal centre and width are one class, whose mass in a step is computed once.
class SteppedKernels {
 public:
  /// The class of a kernel, which holds it until release().
  uint32_t hold(double centre, double width);
  void release(uint32_t kernel_class);

  /// [classes], a multiple of kMixtureLanes. Those that nobody holds have inverse width 0.
  const std::vector<double>& centres() const { return centres_; }
  const std::vector<double>& inverse_widths() const { return inverse_widths_; }

 private:
  void grow();

  struct Key {
    uint64_t centre, width;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      return (key.centre ^ std::rotl(key.width, 29)) * 0x9E3779B97F4A7C15 >> 7;
    }
  };

  std::vector<double> centres_, inverse_widths_;
  std::vector<Key> keys_;
  std::vector<uint32_t> holders_, free_;
  std::unordered_map<Key, uint32_t, Hash> by_key_;
};

}  // namespace muster::tune
