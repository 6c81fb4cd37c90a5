// The fake devices made known to LibTorch.
#pragma once

namespace muster::testing {

/// Once per process; later calls do nothing. Throws an environment error, and leaves all as it was,
/// if another device stands where fake ones would, or autograd's threads run without them.
void register_fake_devices();

}  // namespace muster::testing
