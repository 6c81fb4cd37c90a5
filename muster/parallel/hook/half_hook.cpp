#include "muster/parallel/hook/half_hook.h"

#include <utility>
#include <vector>

namespace muster::parallel {
namespace {

class HalfHook final : public CommHook {
 public:
  HalfHook(distributed::ProcessGroup group, at::ScalarType dtype)
      : group_(std::move(group)), dtype_(dtype) {}

  BucketReduction reduce(c10d::GradBucket& bucket) override {
    const at::Tensor wide = bucket.getBuffer();
    if (wide.is_sparse() || wide.is_complex()) return reduce_uncompressed(group_, bucket);
    // PyTorch's order: rounded first, then divided.
    std::vector<at::Tensor> half{wide.to(dtype_).div_(group_.world_size())};
    return {group_.c10d()->allreduce(half), [wide](const at::Tensor& sum) {
              wide.copy_(sum);
              return wide;
            }};
  }

  bool scatters() const override { return true; }
  at::Tensor before_scatter(const at::Tensor& gradients) override {
    const at::Tensor sent = gradients.is_complex() ? gradients : gradients.to(dtype_);
    return sent.div_(group_.world_size());
  }
  at::Tensor after_scatter(const at::Tensor& sum, at::ScalarType dtype) override {
    return sum.to(dtype);
  }

 private:
  distributed::ProcessGroup group_;
  at::ScalarType dtype_;
};

}  // namespace

std::shared_ptr<CommHook> make_half_hook(const distributed::ProcessGroup& group,
                                         at::ScalarType dtype) {
  return std::make_shared<HalfHook>(group, dtype);
}

BucketReduction reduce_uncompressed(const distributed::ProcessGroup& group,
                                    c10d::GradBucket& bucket) {
  std::vector<at::Tensor> sum{bucket.getBufferRef().div_(group.world_size())};
  return {group.c10d()->allreduce(sum)};
}

}  // namespace muster::parallel
