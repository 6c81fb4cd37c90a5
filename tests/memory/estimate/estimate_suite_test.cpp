// Suite G: what an estimate on meta says, against what the same steps took.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "muster/memory/allocator/cpu_memory.h"
#include "muster/memory/estimate/cpu_scratch.h"

#include "tests/memory/estimate/zoo_step.h"
#include "tests/testing/accelerator/fake.h"

namespace muster::memory {
namespace {

using test::ZooCase;
using test::ZooStep;

const models::ImageShape kGrey{.channels = 1, .height = 28, .width = 28, .classes = 10};
const models::ImageShape kSmall{.channels = 3, .height = 32, .width = 32, .classes = 10};
const models::ImageShape kLarge{.channels = 3, .height = 64, .width = 64, .classes = 10};
const models::ImageShape kWords{
    .channels = 1, .height = 1, .width = 40, .classes = 4, .vocabulary = 1000};

struct SuiteModel {
  const char* name;
  models::ImageShape shape;
  std::vector<int64_t> batches;
  bool is_large = false;  // one optimizer will do
};

std::vector<SuiteModel> suite_models() {
  return {{"mlp", kGrey, {8, 64, 256}},
          {"lenet", kGrey, {8, 64}},
          {"cnn", kGrey, {8, 64}},
          {"lstm", kGrey, {8, 64}},
          {"lstm", kWords, {8, 64}},
          {"transformer", kGrey, {8, 64}},
          {"transformer", kWords, {8, 64}},
          {"resnet18", kSmall, {2, 8, 32}},
          {"resnet34", kSmall, {4}, true},
          {"resnet50", kSmall, {4}, true},
          {"alexnet", kLarge, {16}, true}};  // vgg11 and vgg16 take 1.5 GiB: by hand
}

std::vector<ZooCase> suite_cases() {
  std::vector<ZooCase> cases;
  for (const SuiteModel& model : suite_models()) {
    for (const int64_t batch : model.batches) {
      const ZooCase plain{.model = model.name, .shape = model.shape, .batch = batch};
      ZooCase momentum = plain, adam = plain;
      momentum.optimizer_params = {{"momentum", "0.9"}};
      adam.optimizer = "adam";
      cases.push_back(momentum);
      if (!model.is_large) cases.insert(cases.end(), {plain, adam});
    }
  }
  return cases;
}

/// Of CPU tensors, in two steps.
int64_t measured_on_cpu(const ZooCase& from) {
  const Recording recording(Level::kCounters);
  const int64_t before = cpu_counters().current;
  ZooStep step(from, at::kCPU);
  reset_cpu_peak();  // initial weights may have taken more than a step does
  for (int i = 0; i < 2; ++i) step.run();
  return cpu_counters().peak - before;
}

/// Relative errors: below 0 it is estimated too low.
class Errors {
 public:
  void add(const std::string& name, double estimated, double measured) {
    const double error = (estimated - measured) / measured;
    sizes_.push_back(std::abs(error));
    if (error < 0) ++low_;
    if (error < -0.01) ++well_below_;
    if (sizes_.size() > 1 && std::abs(error) <= std::abs(worst_)) return;
    worst_ = error;
    worst_name_ = name;
  }
  double median() const {
    std::vector<double> sorted = sizes_;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
  double worst() const { return std::abs(worst_); }
  void print(const char* name) const {
    std::printf(
        "%s: %zu cases, median %.2f %%, worst %+.1f %% (%s), too low in %d, by more than 1 %% in "
        "%d\n",
        name,
        sizes_.size(),
        100 * median(),
        100 * worst_,
        worst_name_.c_str(),
        low_,
        well_below_);
  }

 private:
  std::vector<double> sizes_;
  int low_ = 0, well_below_ = 0;
  double worst_ = 0;
  std::string worst_name_;
};

double parameter_bytes(const ZooCase& from) {
  double bytes = 0;
  for (const at::Tensor& parameter : ZooStep(from, at::kMeta).model()->parameters())
    bytes += static_cast<double>(parameter.nbytes());
  return bytes;
}

/// How often an optimizer holds the parameters, with them and their gradients.
double copies_with(const ZooCase& from) {
  if (from.optimizer == "adam") return 4;
  return from.optimizer_params.empty() ? 2 : 3;
}

TEST(EstimateSuite, SaysWhatStepsOfTheZooTakeOnTheCpu) {
  if (!is_cpu_scratch_known())
    GTEST_SKIP() << "the scratch of convolutions was seen with AVX2 alone";
  Errors on_meta, without_scratch, by_sum, by_fit;
  std::map<std::string, std::pair<double, double>> first;  // by model and optimizer: batch, peak
  for (const ZooCase& one : suite_cases()) {
    SCOPED_TRACE(one.text());
    const PeakEstimate estimate = test::estimate_of(one);
    const auto measured = static_cast<double>(measured_on_cpu(one));
    const auto estimated = static_cast<double>(estimate.peak);
    std::printf("%-52s %9.2f MiB estimated, %9.2f measured, %+6.2f %%\n",
                one.text().c_str(),
                estimated / (1 << 20),
                measured / (1 << 20),
                100 * (estimated - measured) / measured);
    EXPECT_LE(std::abs(estimated - measured), estimate.error() * estimated);
    on_meta.add(one.text(), estimated, measured);
    const PeakEstimate tensors = test::estimate_of(one, {.cpu_scratch = false});
    without_scratch.add(one.text(), static_cast<double>(tensors.peak), measured);
    const double weights = parameter_bytes(one);
    by_sum.add(one.text(), copies_with(one) * weights, measured);
    ZooCase unlike = one;
    unlike.batch = 0;
    const auto [found, is_first] = first.try_emplace(unlike.text(), one.batch, measured);
    if (is_first) continue;
    const auto& [batch, peak] = found->second;
    const double per_sample = std::max(0.0, peak - 4 * weights) / batch;
    by_fit.add(one.text(), 4 * weights + per_sample * static_cast<double>(one.batch), measured);
  }
  on_meta.print("estimated on meta");
  without_scratch.print("the same without scratch of convolutions");
  by_sum.print("sum of parameters, gradients and state");
  by_fit.print("4 x parameters, and activations by one measured batch");
  EXPECT_LE(on_meta.median(), 0.10);
  EXPECT_LT(on_meta.median(), by_sum.median());
  EXPECT_LT(on_meta.median(), by_fit.median());
}

}  // namespace
}  // namespace muster::memory
