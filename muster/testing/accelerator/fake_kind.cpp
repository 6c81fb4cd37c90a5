#include "muster/testing/accelerator/fake_kind.h"

#include <mutex>
#include <string>

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "muster/base/error.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
#include "muster/testing/accelerator/fake_accelerator.h"

namespace muster::testing {
namespace {

constexpr const char* kFakeCountEnv = "MUSTER_FAKE_DEVICES";
constexpr const char* kFakeBytesEnv = "MUSTER_FAKE_BYTES";
constexpr int kFakeCount = 8;

int64_t fake_number(const char* variable, int64_t otherwise, int64_t most) {
  const auto text = process_environment(variable);
  if (!text || text->empty()) return otherwise;
  const auto number = to_int(*text);
  if (number && *number >= 1 && *number <= most) return *number;
  throw usage_error(
      {.refused = variable, .rule = concat("a whole number from 1 to ", most), .value = *text});
}

/// A process keeps what it has: its tensors may be anywhere.
std::string open_fake() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (c10::impl::hasDeviceGuardImpl(c10::DeviceType::PrivateUse1) &&
      tensor::device_count(c10::DeviceType::PrivateUse1) > 0)
    return "";
  const int64_t devices = fake_number(kFakeCountEnv, kFakeCount, FakeAccelerator::kMaxDevices);
  const FakeAcceleratorOptions usual;
  const int64_t bytes =
      fake_number(kFakeBytesEnv, usual.bytes_per_device, FakeAccelerator::kMaxBytes);
  try {
    new FakeAccelerator({.devices = static_cast<int>(devices),
                         .bytes_per_device = bytes,
                         .races = Races::kThrow,
                         .poison = true});  // for as long as the process runs
    return "";
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUsage) throw;
    return error.text().rule;
  }
}

}  // namespace

const tensor::DeviceKind kFakeDevices{.name = "fake",
                                      .type = c10::DeviceType::PrivateUse1,
                                      .open = &open_fake,
                                      .is_automatic = false};

}  // namespace muster::testing
