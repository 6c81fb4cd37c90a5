// The same steps on a fake device, whose counters round as CUDA's do.
#include <cmath>
#include <cstdio>

#include <gtest/gtest.h>

#include "muster/memory/allocator/cpu_memory.h"
#include "muster/memory/estimate/cpu_scratch.h"

#include "tests/memory/estimate/zoo_step.h"
#include "tests/testing/accelerator/fake.h"

namespace muster::memory {
namespace {

using test::ZooCase;
using testing::FakeAccelerator;

TEST(EstimateSuite, SaysWhatStepsTakeOnAFakeDevice) {
  if (!is_cpu_scratch_known())
    GTEST_SKIP() << "the scratch of convolutions was seen with AVX2 alone";
  const Recording before_the_fake(Level::kCounters);
  FakeAccelerator fake({.bytes_per_device = int64_t{2} << 30, .races = testing::Races::kIgnore});
  std::vector<double> errors;
  for (const char* const model : {"mlp", "lenet", "cnn", "transformer", "resnet18"}) {
    for (const char* const optimizer : {"sgd", "adam"}) {
      const bool is_deep = std::string_view(model) == "resnet18";
      const ZooCase one{.model = model,
                        .shape = {.channels = is_deep ? 3 : 1, .height = 32, .width = 32},
                        .batch = is_deep ? 4 : 32,
                        .optimizer = optimizer};
      SCOPED_TRACE(one.text());
      const PeakEstimate estimate = test::estimate_of(one);
      const int64_t before = fake.memory(0).live;
      test::ZooStep step(one, test::kFake0);
      fake.reset_peak(0);
      for (int i = 0; i < 2; ++i) step.run();
      const auto measured = static_cast<double>(fake.memory(0).peak - before);
      const double error = (static_cast<double>(estimate.device_peak) - measured) / measured;
      std::printf("%-40s %9.2f MiB measured on a fake device, %+6.2f %%\n",
                  one.text().c_str(),
                  measured / (1 << 20),
                  100 * error);
      // Attention is made of other operators there, which take less.
      const bool has_attention = std::string_view(model) == "transformer";
      EXPECT_LE(std::abs(error), has_attention ? 0.25 : 0.02);
      errors.push_back(std::abs(error));
    }
  }
  std::sort(errors.begin(), errors.end());
  EXPECT_LE(errors[errors.size() / 2], 0.10);
}

}  // namespace
}  // namespace muster::memory
