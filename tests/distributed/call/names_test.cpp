// One call has one name, whoever speaks of it: the backends that compare calls, and the recorder.
#include "muster/distributed/call/names.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/diagnose/record/op_record.h"
#include "muster/distributed/call/contribution.h"

namespace muster::distributed {
namespace {

using c10d::OpType;

std::string recorded(diagnose::OpKind kind, const at::Tensor& tensor) {
  diagnose::OpRecord record{.kind = kind, .root = 0};
  diagnose::TensorMeta meta{.dtype = dtype_name(tensor.scalar_type()),
                            .dims = static_cast<uint8_t>(tensor.dim()),
                            .elements = tensor.numel()};
  for (size_t i = 0; i < meta.dims; ++i) meta.sizes[i] = tensor.size(static_cast<int64_t>(i));
  diagnose::add_tensor(record, meta, static_cast<int64_t>(tensor.element_size()));
  return diagnose::describe(record);
}

TEST(CallNames, OfBackendsAreThoseOfTheFlightRecorder) {
  const at::Tensor tensor = torch::ones({2, 3});
  const Contribution sum{.op = OpType::ALLREDUCE, .inputs = {tensor}, .outputs = {}};
  EXPECT_EQ(sum.describe(), "all_reduce sum float32[2, 3]");
  EXPECT_EQ(sum.describe(), recorded(diagnose::OpKind::kAllreduce, tensor));
  EXPECT_EQ(OpSignature::of(sum, 0).describe(), sum.describe());
  const Contribution given{
      .op = OpType::BROADCAST, .inputs = {tensor.to(at::kLong)}, .outputs = {}};
  EXPECT_EQ(given.describe(), "broadcast root 0 int64[2, 3]");
  EXPECT_EQ(given.describe(), recorded(diagnose::OpKind::kBroadcast, given.inputs[0]));
  EXPECT_EQ(OpSignature::of(given, 0).describe(), given.describe());
}

// https://docs.pytorch.org/docs/stable/distributed.html
TEST(CallNames, AreTorchDistributeds) {
  EXPECT_EQ(operation_name(OpType::ALLREDUCE), "all_reduce");
  EXPECT_EQ(operation_name(OpType::ALLGATHER), "all_gather");
  EXPECT_EQ(operation_name(OpType::_ALLGATHER_BASE), "all_gather_into_tensor");
  EXPECT_EQ(operation_name(OpType::_REDUCE_SCATTER_BASE), "reduce_scatter_tensor");
  EXPECT_EQ(operation_name(OpType::ALLTOALL), "all_to_all");
  EXPECT_EQ(operation_name(OpType::ALLTOALL_BASE), "all_to_all_single");
  EXPECT_EQ(operation_name(OpType::BARRIER), "barrier");
  EXPECT_EQ(operation_name(OpType::COALESCED), "coalesced");  // c10d's own, in small letters
}

TEST(CallNames, OfDtypesArePyTorchs) {
  EXPECT_STREQ(dtype_name(at::kFloat), "float32");
  EXPECT_STREQ(dtype_name(at::kLong), "int64");
  EXPECT_STREQ(dtype_name(at::kComplexDouble), "complex128");
  EXPECT_STREQ(dtype_name(at::ScalarType::UInt16), "uint16");
  EXPECT_STREQ(dtype_name(at::kQInt8), "qint8");
}

TEST(CallNames, InAFaultPlanMayBeThoseOfC10dsMethodsToo) {
  EXPECT_EQ(diagnose::op_kind("allreduce"), diagnose::OpKind::kAllreduce);
  EXPECT_EQ(diagnose::op_kind("all_reduce"), diagnose::OpKind::kAllreduce);
  EXPECT_EQ(diagnose::op_kind("allgather_base"), diagnose::OpKind::kAllgatherBase);
  EXPECT_EQ(diagnose::op_kind("ALLREDUCE"), std::nullopt);
}

}  // namespace
}  // namespace muster::distributed
