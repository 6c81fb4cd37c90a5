#include "muster/tensor/device/device_memory.h"

#include <map>

#include <gtest/gtest.h>

namespace muster::tensor {
namespace {

double share_by(const std::map<std::string, std::string, std::less<>>& variables) {
  return memory_share([&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(DeviceMemory, TheShareIsThatOfLibTorchsVariables) {
  EXPECT_EQ(share_by({}), 1);
  EXPECT_EQ(share_by({{"PYTORCH_CUDA_ALLOC_CONF", "per_process_memory_fraction:0.25"}}), 0.25);
  EXPECT_EQ(share_by({{"PYTORCH_ALLOC_CONF",
                       "expandable_segments:True, per_process_memory_fraction:0.5"}}),
            0.5);
  for (const char* other : {"expandable_segments:True",
                            "per_process_memory_fraction",
                            "per_process_memory_fraction:",
                            "per_process_memory_fraction:nan",
                            "per_process_memory_fraction:0",
                            "per_process_memory_fraction:7"})
    EXPECT_EQ(share_by({{"PYTORCH_CUDA_ALLOC_CONF", other}}), 1) << other;
}

}  // namespace
}  // namespace muster::tensor
