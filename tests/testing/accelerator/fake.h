// What tests of the fake accelerator share.
#pragma once

#include <cstring>
#include <string>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "muster/testing/accelerator/fake_accelerator.h"

namespace muster::test {

inline const c10::Device kFake0 = testing::FakeAccelerator::device(0);
inline const c10::Device kFake1 = testing::FakeAccelerator::device(1);

inline c10::impl::VirtualGuardImpl fake_guard() {
  return c10::impl::VirtualGuardImpl(c10::DeviceType::PrivateUse1);
}

/// Type, sizes and every bit of the elements, wherever they are.
inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.detach().cpu().contiguous(), y = b.detach().cpu().contiguous();
  if (x.scalar_type() != y.scalar_type() || x.sizes() != y.sizes()) return false;
  return x.numel() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

}  // namespace muster::test
