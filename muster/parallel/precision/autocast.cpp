#include "muster/parallel/precision/autocast.h"

#include <ATen/autocast_mode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/dtype_name.h"

namespace muster::parallel {
namespace {

c10::DeviceType with_autocast(c10::DeviceType device) {
  if (at::autocast::is_autocast_available(device)) return device;
  throw usage_error({.refused = concat("autocast on ", c10::DeviceTypeName(device, true)),
                     .rule = "a kind of device that LibTorch casts operations of",
                     .hint = "the kind of device that the model is on, such as c10::kCPU or "
                             "c10::kCUDA"});
}

}  // namespace

AutocastGuard::AutocastGuard(c10::DeviceType device, AutocastOptions options)
    : device_(with_autocast(device)),
      enabled_before_(at::autocast::is_autocast_enabled(device)),
      cache_before_(at::autocast::is_autocast_cache_enabled()),
      dtype_before_(at::autocast::get_autocast_dtype(device)) {
  if (options.dtype == c10::ScalarType::Undefined)
    options.dtype = device == c10::kCPU ? c10::kBFloat16 : c10::kHalf;
  if (options.dtype != c10::kBFloat16 && options.dtype != c10::kHalf) {
    throw usage_error({.refused = concat("autocast to ", tensor::dtype_name(options.dtype)),
                       .rule = "its dtype is float16 or bfloat16"});
  }
  at::autocast::increment_nesting();
  at::autocast::set_autocast_enabled(device, options.enabled);
  at::autocast::set_autocast_dtype(device, options.dtype);
  at::autocast::set_autocast_cache_enabled(options.cache);
}

AutocastGuard::~AutocastGuard() {
  // The cache is the process's, its entries are of single tensors: another thread's casts are at
  // worst made again.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, enabled_before_);
  at::autocast::set_autocast_dtype(device_, dtype_before_);
  at::autocast::set_autocast_cache_enabled(cache_before_);
}

}  // namespace muster::parallel
