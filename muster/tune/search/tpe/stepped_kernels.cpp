#include "muster/tune/search/tpe/stepped_kernels.h"

#include "muster/tune/search/tpe/mixture.h"

namespace muster::tune {

uint32_t SteppedKernels::hold(double centre, double width) {
  const Key key{std::bit_cast<uint64_t>(centre), std::bit_cast<uint64_t>(width)};
  const auto [at, is_new] = by_key_.try_emplace(key, 0);
  if (is_new) {
    if (free_.empty()) grow();
    at->second = free_.back();
    free_.pop_back();
  }
  const uint32_t kernel_class = at->second;
  if (is_new) {
    centres_[kernel_class] = centre, inverse_widths_[kernel_class] = 1 / width;
    keys_[kernel_class] = key;
  }
  ++holders_[kernel_class];
  return kernel_class;
}

void SteppedKernels::grow() {
  const size_t before = centres_.size(), after = before + kMixtureLanes;
  centres_.resize(after), inverse_widths_.resize(after), keys_.resize(after);
  holders_.resize(after);
  for (size_t one = after; one-- > before;) free_.push_back(static_cast<uint32_t>(one));
}

void SteppedKernels::release(uint32_t kernel_class) {
  if (--holders_[kernel_class] > 0) return;
  by_key_.erase(keys_[kernel_class]);
  inverse_widths_[kernel_class] = 0;
  free_.push_back(kernel_class);
}

}  // namespace muster::tune
