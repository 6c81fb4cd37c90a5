// The door to what autograd saves.
#include "muster/tensor/saved_tensors.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/torch.h>

#include "tests/support/error_of.h"

namespace muster {
namespace {

using tensor::SavedTensor;
using tensor::SavedTensorHooks;
using tensor::SavedTensorScope;
using tensor::UnchangedTensor;
using ::testing::HasSubstr;
using torch::autograd::Engine;

/// Keeps twice of everything, and counts.
struct Doubling : SavedTensorHooks {
  struct Double : SavedTensor {
    explicit Double(Doubling& all, torch::Tensor twice) : of(all), kept(std::move(twice)) {}
    at::Tensor unpack() override {
      ++of.unpacked;
      return kept;
    }
    Doubling& of;
    torch::Tensor kept;
  };
  std::unique_ptr<SavedTensor> pack(const at::Tensor& tensor) override {
    EXPECT_FALSE(at::GradMode::is_enabled());
    ++packed;
    return std::make_unique<Double>(*this, tensor.detach() * 2);
  }
  int packed = 0, unpacked = 0;
};

torch::Tensor leaf() { return torch::tensor({1.0, 2.0, 3.0}).requires_grad_(); }

TEST(SavedTensors, AreInTheHooksKeepingInsideAScope) {
  Doubling hooks;
  const torch::Tensor x = leaf();
  torch::Tensor out;
  {
    const SavedTensorScope scope(hooks);
    out = x.square().sum();
  }
  const torch::Tensor outside = x.square().sum();
  EXPECT_EQ(hooks.packed, 1);
  out.backward();
  EXPECT_EQ(hooks.unpacked, 1);
  EXPECT_TRUE(torch::equal(x.grad(), x.detach() * 4));  // 2 x, and x twice as large
  x.mutable_grad() = torch::Tensor();
  outside.backward();
  EXPECT_TRUE(torch::equal(x.grad(), x.detach() * 2));
}

TEST(SavedTensors, AreTheInnermostScopesAlone) {
  Doubling outer, inner;
  const torch::Tensor x = leaf();
  const SavedTensorScope scope(outer);
  x.square();
  {
    const SavedTensorScope within(inner);
    x.square();
    x.square();
  }
  x.square();
  EXPECT_EQ(outer.packed, 2);
  EXPECT_EQ(inner.packed, 2);
}

TEST(SavedTensors, AreTheScopesOfTheirThread) {
  Doubling here;
  const SavedTensorScope scope(here);
  std::thread([] {
    leaf().square();
    Doubling there;
    const SavedTensorScope other(there);
    leaf().square();
    EXPECT_EQ(there.packed, 1);
  }).join();
  EXPECT_EQ(here.packed, 0);
}

TEST(SavedTensors, ScopesOfManyThreadsHinderNobody) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int round = 0; round < 50; ++round) {
        Doubling hooks;
        const torch::Tensor x = leaf();
        torch::Tensor out;
        {
          const SavedTensorScope scope(hooks);
          out = x.square().sum();
        }
        out.backward();
        EXPECT_TRUE(torch::equal(x.grad(), x.detach() * 4));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SavedTensors, AnEngineThatSomebodySetsLaterStaysBehindTheNextScope) {
  struct Theirs : Engine {
    std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks()
        override {
      ++asked;
      return nullptr;
    }
    int asked = 0;
  };
  static auto* theirs = new Theirs;
  Doubling hooks;
  { const SavedTensorScope ours(hooks); }
  torch::autograd::set_default_engine_stub([]() -> Engine& { return *theirs; });
  const torch::Tensor x = leaf();
  torch::Tensor out;
  {
    const SavedTensorScope again(hooks);
    out = x.square().sum();
  }
  EXPECT_EQ(hooks.packed, 1);
  EXPECT_EQ(theirs->asked, 0);
  x.square();
  EXPECT_EQ(theirs->asked, 1);
  out.backward();
  EXPECT_TRUE(torch::equal(x.grad(), x.detach() * 4));
  { const SavedTensorScope scope(hooks); }
  torch::autograd::set_default_engine_stub([]() -> Engine& { return Engine::get_base_engine(); });
}

TEST(SavedTensors, ThatChangedInPlaceAreNoticed) {
  torch::Tensor x = torch::ones({2, 3});
  const UnchangedTensor kept(x);
  EXPECT_TRUE(kept.get().is_alias_of(x));
  x.add_(1);
  EXPECT_THAT(test::refusal_of([&] { (void)kept.get(); }),
              HasSubstr("[2, 3] is at version 1 instead of 0"));
}

TEST(SavedTensors, KnowParametersAndViewsOfThem) {
  const torch::nn::Linear linear(3, 2);
  EXPECT_TRUE(tensor::is_of_parameter(linear->weight));
  EXPECT_TRUE(tensor::is_of_parameter(linear->weight.t()));
  EXPECT_FALSE(tensor::is_of_parameter(linear->weight * 2));
  EXPECT_FALSE(tensor::is_of_parameter(torch::ones({2})));
  EXPECT_FALSE(tensor::is_of_parameter(torch::ones({2, 2}).t()));
}

}  // namespace
}  // namespace muster
