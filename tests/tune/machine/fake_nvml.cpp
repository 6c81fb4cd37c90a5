// A driver's library with the devices that FAKE_NVML names: "GPU-a,GPU-b"; "fail" does not start.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

std::vector<std::string> devices() {
  std::vector<std::string> out;
  std::string all = std::getenv("FAKE_NVML") == nullptr ? "" : std::getenv("FAKE_NVML");
  for (char* at = std::strtok(all.data(), ","); at != nullptr; at = std::strtok(nullptr, ","))
    out.emplace_back(at);
  return out;
}

}  // namespace

// Names and codes of nvml.h: 0 is success, 2 a wrong argument, 9 no driver.
extern "C" {
int nvmlInit_v2() { return devices() == std::vector<std::string>{"fail"} ? 9 : 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(devices().size());
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= devices().size()) return 2;
  *device = reinterpret_cast<void*>(static_cast<size_t>(index) + 1);
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  const size_t index = reinterpret_cast<size_t>(device) - 1;
  if (index >= devices().size()) return 2;
  std::snprintf(text, size, "%s", devices()[index].c_str());
  return 0;
}
}
