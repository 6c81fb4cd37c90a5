#include "muster/tensor/intraop_threads.h"

#include <thread>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace muster::tensor {
namespace {

TEST(IntraopThreads, AreSetForTheCallingThreadAndNoOther) {
  const int before = at::get_num_threads();
  int own = 0, again = 0, later = 0;
  std::thread([&] {
    set_own_intraop_threads(before + 2);
    own = at::get_num_threads();
    const torch::Tensor product = torch::ones({64, 64}).mm(torch::ones({64, 64}));  // MKL asks, too
    again = at::get_num_threads();
    EXPECT_EQ(product[0][0].item<float>(), 64);
  }).join();
  std::thread([&] { later = at::get_num_threads(); }).join();
  EXPECT_EQ(own, before + 2);
  EXPECT_EQ(again, before + 2);
  EXPECT_EQ(later, before);
  EXPECT_EQ(at::get_num_threads(), before);
}

}  // namespace
}  // namespace muster::tensor
