#include "muster/tensor/dtype_name.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace muster::tensor {
namespace {

// As str(torch.float32) has it behind "torch.".
TEST(DtypeName, IsPyTorchs) {
  EXPECT_STREQ(dtype_name(torch::kFloat), "float32");
  EXPECT_STREQ(dtype_name(torch::kDouble), "float64");
  EXPECT_STREQ(dtype_name(torch::kHalf), "float16");
  EXPECT_STREQ(dtype_name(torch::kBFloat16), "bfloat16");
  EXPECT_STREQ(dtype_name(at::kFloat8_e4m3fn), "float8_e4m3fn");
  EXPECT_STREQ(dtype_name(torch::kByte), "uint8");
  EXPECT_STREQ(dtype_name(torch::kChar), "int8");
  EXPECT_STREQ(dtype_name(torch::kShort), "int16");
  EXPECT_STREQ(dtype_name(torch::kInt), "int32");
  EXPECT_STREQ(dtype_name(torch::kLong), "int64");
  EXPECT_STREQ(dtype_name(torch::kBool), "bool");
  EXPECT_STREQ(dtype_name(torch::kComplexFloat), "complex64");
}

}  // namespace
}  // namespace muster::tensor
