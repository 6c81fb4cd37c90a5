// What the monitor itself does not expect is an error of the group, and ends no process.
#include <future>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/torch.h>

#include "muster/distributed/monitor/monitor.h"

#include "tests/support/error_of.h"

namespace muster::distributed {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class OddWork final : public c10d::Work {
 public:
  bool isCompleted() override { throw std::runtime_error("no such process"); }
  bool wait(std::chrono::milliseconds) override { return true; }
};

class OddBackend final : public c10d::Backend {
 public:
  OddBackend() : c10d::Backend(0, 2) {}
  const std::string getBackendName() const override { return "odd"; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>&,
                                           const c10d::AllreduceOptions&) override {
    return c10::make_intrusive<OddWork>();
  }
  void abort() override { aborted.set_value(); }

  std::promise<void> aborted;
};

TEST(Monitor, ThatFailsItselfFailsTheGroup) {
  const auto inner = c10::make_intrusive<OddBackend>();
  const c10::intrusive_ptr<c10d::Backend> outer =
      monitored(inner,
                {.store = c10::make_intrusive<c10d::HashStore>(),
                 .world_size = 2,
                 .timeout = 60s,
                 .threads = true},
                {});
  std::vector<at::Tensor> one{torch::ones({2})};
  const auto work = outer->allreduce(one);  // looked at by the monitor, since nobody waits for it
  inner->aborted.get_future().wait();
  EXPECT_THAT(test::error_of([&] { outer->allreduce(one); }),
              HasSubstr("rank 0 cannot watch the group any more: no such process"));
}

}  // namespace
}  // namespace muster::distributed
