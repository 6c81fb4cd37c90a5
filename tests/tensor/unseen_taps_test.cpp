// Gradients of convolutions whose kernels reach beyond what there is, in bfloat16 against float32.
#include "muster/tensor/unseen_taps.h"

#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace muster::tensor {
namespace {

struct Shape {
  int64_t height, width, kernel, stride, padding, dilation = 1, groups = 1;
  bool transposed = false;
};

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << (shape.transposed ? "transposed " : "") << shape.height << " x " << shape.width
             << ", kernel " << shape.kernel << ", stride " << shape.stride << ", padding "
             << shape.padding << ", dilation " << shape.dilation << ", groups " << shape.groups;
}

/// Of the weight and of the input, in `dtype`, of the same bfloat16 numbers.
std::vector<torch::Tensor> gradients(const Shape& shape, torch::Dtype dtype) {
  torch::manual_seed(1);
  const auto of = [&](at::IntArrayRef sizes) {
    return torch::randn(sizes).to(torch::kBFloat16).to(dtype).requires_grad_();
  };
  const int64_t in = 16 / shape.groups;
  const torch::Tensor x = of({4, 16, shape.height, shape.width});
  const torch::Tensor w = shape.transposed ? of({16, 32 / shape.groups, shape.kernel, shape.kernel})
                                           : of({32, in, shape.kernel, shape.kernel});
  const torch::Tensor y =
      shape.transposed
          ? torch::conv_transpose2d(
                x, w, {}, shape.stride, shape.padding, 0, shape.groups, shape.dilation)
          : torch::conv2d(x, w, {}, shape.stride, shape.padding, shape.dilation, shape.groups);
  const torch::Tensor grad = torch::randn(y.sizes()).to(torch::kBFloat16).to(dtype);
  y.backward(grad);
  return {w.grad().to(torch::kFloat), x.grad().to(torch::kFloat)};
}

/// Memory that the next tensors of such sizes get, full of what no gradient is.
void leave_junk() {
  for (const int64_t size : {1 << 8, 1 << 12, 1 << 14, 1 << 16, 1 << 18}) {
    std::vector<torch::Tensor> held;
    for (int i = 0; i < 8; ++i) held.push_back(torch::full({size}, 1e20F));
  }
}

TEST(UnseenTaps, HaveNoGradientInBfloat16) {
  zero_unseen_taps();
  zero_unseen_taps();  // a second time is nothing
  for (const Shape& shape : std::vector<Shape>{{1, 1, 3, 2, 1},
                                               {1, 1, 7, 2, 3},
                                               {2, 2, 5, 4, 2},
                                               {3, 3, 7, 4, 3},
                                               {2, 7, 5, 3, 2},
                                               {7, 1, 3, 2, 1},
                                               {1, 1, 3, 2, 1, 1, 4},
                                               {2, 2, 3, 2, 2, 2},
                                               {8, 8, 3, 2, 1},
                                               {1, 1, 3, 1, 1},
                                               {1, 1, 3, 2, 1, 1, 1, true},
                                               {2, 2, 5, 3, 2, 1, 1, true},
                                               {2, 3, 4, 2, 2, 1, 2, true}}) {
    const auto exact = gradients(shape, torch::kFloat);
    for (int repeat = 0; repeat < 5; ++repeat) {
      leave_junk();
      const auto found = gradients(shape, torch::kBFloat16);
      for (size_t i = 0; i < found.size(); ++i) {
        const torch::Tensor room = 0.02 * exact[i].abs() + 0.1;
        ASSERT_TRUE(((found[i] - exact[i]).abs() <= room).all().item<bool>())
            << shape << (i == 0 ? ": weight" : ": input") << " off by "
            << (found[i] - exact[i]).abs().max().item<float>();
      }
    }
  }
}

}  // namespace
}  // namespace muster::tensor
