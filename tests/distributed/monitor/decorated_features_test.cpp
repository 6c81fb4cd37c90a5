// What a backend can do besides the common operations it can also do with the monitor around it.
// LibTorch has these features since 2.12.
#include <torch/version.h>
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 12
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/torch.h>

#include "muster/distributed/monitor/monitor.h"

namespace muster::distributed {
namespace {

using ::testing::ElementsAre;
using namespace std::chrono_literals;

class DoneWork final : public c10d::Work {
 public:
  bool isCompleted() override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
};

/// As ProcessGroupNCCL, and writes down what it is asked for.
class FeatureBackend final : public c10d::Backend {
 public:
  FeatureBackend() : c10d::Backend(0, 2) {}
  const std::string getBackendName() const override { return "feature"; }
  c10::intrusive_ptr<c10d::Work> gather_single(at::Tensor&,
                                               at::Tensor&,
                                               const c10d::GatherOptions& options) override {
    asked.push_back("gather to " + std::to_string(options.rootRank));
    return c10::make_intrusive<DoneWork>();
  }
  bool supportsTimeEstimation() const override { return true; }
  void startTimeEstimate() override { asked.emplace_back("estimate"); }
  float endTimeEstimate() override { return 1.5F; }
  bool isInitialized() override { return false; }
  bool supportsShrinking() const override { return true; }
  c10::intrusive_ptr<c10d::Backend> shrink(const std::vector<int64_t>& without,
                                           int,
                                           const c10::intrusive_ptr<Options>&) override {
    asked.push_back("shrink by " + std::to_string(without.size()));
    return {};
  }
  void addEphemeralTimeout(const std::chrono::milliseconds& timeout) override {
    asked.push_back("extend by " + std::to_string(timeout.count()));
  }
  void suspend() override { asked.emplace_back("suspend"); }
  void resume() override { asked.emplace_back("resume"); }
  std::unordered_map<std::string, uint64_t> getMemoryStats() override { return {{"held", 7}}; }
  void setSequenceNumberForGroup() override { asked.emplace_back("number"); }

  std::vector<std::string> asked;
};

TEST(DecoratedBackend, HasTheFeaturesOfTheBackendInIt) {
  const auto inner = c10::make_intrusive<FeatureBackend>();
  const c10::intrusive_ptr<c10d::Backend> outer =
      monitored(inner,
                {.store = c10::make_intrusive<c10d::HashStore>(),
                 .world_size = 2,
                 .timeout = 60s,
                 .threads = true},
                {});
  ASSERT_NE(outer.get(), inner.get());
  torch::Tensor tensor = torch::ones({2}), all = torch::ones({4});
  c10d::GatherOptions to_first;
  to_first.rootRank = 0;
  outer->gather_single(all, tensor, to_first)->wait();
  outer->gather_into_tensor(all, tensor, to_first)->wait();
  EXPECT_TRUE(outer->supportsTimeEstimation());
  outer->startTimeEstimate();
  EXPECT_EQ(outer->endTimeEstimate(), 1.5F);
  EXPECT_FALSE(outer->isInitialized());
  EXPECT_TRUE(outer->supportsShrinking());
  outer->shrink({1});
  outer->addEphemeralTimeout(5ms);
  outer->suspend();
  outer->resume();
  outer->setSequenceNumberForGroup();
  EXPECT_EQ(outer->getMemoryStats().at("held"), 7U);
  outer->setBoundDeviceId(at::Device(at::kCUDA, 1));
  EXPECT_EQ(inner->getBoundDeviceId(), at::Device(at::kCUDA, 1));
  EXPECT_EQ(outer->getBoundDeviceId(), inner->getBoundDeviceId());
  EXPECT_THAT(inner->asked,
              ElementsAre("gather to 0",
                          "gather to 0",
                          "estimate",
                          "shrink by 1",
                          "extend by 5",
                          "suspend",
                          "resume",
                          "number"));
  const auto records = recorder_of(*outer)->since(0);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(describe(records[0]), "gather root 0 float32[2]");
}

}  // namespace
}  // namespace muster::distributed

#endif
