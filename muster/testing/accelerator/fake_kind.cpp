#include "muster/testing/accelerator/fake_kind.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include "muster/base/error.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
#include "muster/testing/accelerator/fake_accelerator.h"

namespace muster::testing {
namespace {

constexpr const char* kFakeCountEnv = "MUSTER_FAKE_DEVICES";
constexpr const char* kFakeBytesEnv = "MUSTER_FAKE_BYTES";
constexpr const char* kFakeBusyEnv = "MUSTER_FAKE_BUSY";
constexpr int kFakeCount = 8;

int64_t fake_number(const char* variable, int64_t otherwise, int64_t most) {
  const auto text = process_environment(variable);
  if (!text || text->empty()) return otherwise;
  const auto number = to_int(*text);
  if (number && *number >= 1 && *number <= most) return *number;
  throw usage_error(
      {.refused = variable, .rule = concat("a whole number from 1 to ", most), .value = *text});
}

/// The devices that another process is said to hold.
std::vector<int64_t> busy_devices() {
  const auto text = process_environment(kFakeBusyEnv);
  if (!text || text->empty()) return {};
  std::vector<int64_t> busy;
  for (const std::string& part : split(*text, ',')) {
    const auto number = to_int(part);
    if (!number || *number < 0) {
      throw usage_error({.refused = kFakeBusyEnv,
                         .rule = "numbers of devices, with commas between them",
                         .value = *text});
    }
    busy.push_back(*number);
  }
  return busy;
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
    const std::vector<int64_t> busy = busy_devices();
    auto* fake = new FakeAccelerator({.devices = static_cast<int>(devices),
                                      .bytes_per_device = bytes,
                                      .races = Races::kThrow,
                                      .poison = true});  // for as long as the process runs
    if (busy.empty()) return "";
    fake->on_operator([busy](std::string_view, c10::Device device) {
      TORCH_CHECK(std::ranges::find(busy, device.index()) == busy.end(),
                  "CUDA error: CUDA-capable device(s) is/are busy or unavailable");
    });
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
