#include "muster/tensor/device/device_memory.h"

#include <gtest/gtest.h>

#include "tests/support/variables.h"

namespace muster::tensor {
namespace {

double share_by(const test::Variables& variables) {
  return memory_share(test::lookup_in(variables));
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

TEST(DeviceMemory, DevicesCountWholeBlocks) {
  const c10::Device cuda(c10::kCUDA, 0);
  EXPECT_EQ(block_bytes(cuda, 0), 0);
  EXPECT_EQ(block_bytes(cuda, 1), 512);
  EXPECT_EQ(block_bytes(cuda, 512), 512);
  EXPECT_EQ(block_bytes(cuda, 513), 1024);
  EXPECT_EQ(block_bytes(c10::kCPU, 513), 513);
}

}  // namespace
}  // namespace muster::tensor
