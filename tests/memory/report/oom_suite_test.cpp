// Suite E: seeded programs that run out of memory, for one cause each, in three sizes. Of each, the
// class, the top holder, and whether what the report says to do works when it is done. The seeds
// were written with the classifier, not by somebody else.
#include <algorithm>
#include <cmath>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <c10/core/AutogradState.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include "muster/base/text.h"
#include "muster/memory/allocator/scope.h"
#include "muster/memory/guard/guard.h"
#include "muster/memory/leak/leak_finder.h"
#include "muster/memory/report/explain.h"
#include "muster/testing/cpu/limited_cpu.h"

#include "tests/memory/report/cuda_failures.h"
#include "tests/memory/report/made_up_machine.h"
#include "tests/testing/accelerator/fake.h"

namespace muster::memory {
namespace {

using test::kFake0;
using test::kGib;
using test::kMib;
using test::MadeUpMachine;
using test::Outcome;
using testing::FakeAccelerator;
using testing::LimitedCpu;

const c10::Device kHost(c10::kCPU);

/// A class, what it is to be called, and the program in size `mib`.
struct Seed {
  OomClass kind;
  OomAction action;
  std::function<Outcome(int64_t mib)> run;
};

std::exception_ptr failure_of(const std::function<void()>& work) {
  try {
    work();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

bool passes(const std::function<void()>& work) { return failure_of(work) == nullptr; }

at::Tensor on(c10::Device device, int64_t bytes) {
  return torch::empty({bytes}, at::TensorOptions(device).dtype(at::kByte));
}

/// CPU blocks by scope, as they were before a seed: other tests of the process leak on purpose.
std::map<std::string, int64_t> left_over;

std::map<std::string, int64_t> cpu_bytes_by_scope() {
  std::map<std::string, int64_t> bytes;
  for (const LiveBlock& block : live_blocks()) bytes[block.scope] += block.bytes;
  return bytes;
}

/// The scope with the most bytes of the seed's.
std::string top_scope(const OomReport& report, c10::Device device) {
  std::map<std::string, int64_t> own;
  for (const Holder& holder : report.facts.holders) own[holder.scope] += holder.bytes;
  if (device.is_cpu()) {
    for (const auto& [scope, bytes] : left_over) own[scope] -= bytes;
  }
  const auto top = std::ranges::max_element(own, {}, [](const auto& pair) { return pair.second; });
  return top == own.end() ? "" : top->first;
}

/// CPU recordings stand behind a fake accelerator's allocator.
struct Fake {
  Recording recording{Level::kTags};
  FakeAccelerator accelerator;
  OomWatch watch;

  explicit Fake(int64_t mib, bool in_pieces = false, bool late_frees = false)
      : accelerator({.bytes_per_device = mib * kMib,
                     .races = testing::Races::kIgnore,
                     .in_pieces = in_pieces,
                     .late_frees = late_frees}) {
    c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  }
};

/// `work` fails; `mend` and `work` again is what the report asks for.
Outcome mended_by(const std::function<void()>& work,
                  const std::function<void()>& mend,
                  c10::Device device,
                  const ExplainOptions& options = {}) {
  const auto error = failure_of(work);
  EXPECT_TRUE(error) << "the seed did not fail";
  Outcome outcome{.report = explain(error, device, options)};
  outcome.top = top_scope(outcome.report, device);
  mend();
  outcome.mended = passes(work);
  return outcome;
}

/// Two sizes were multiplied that should have been added.
Outcome too_large(int64_t mib) {
  const Fake fake(16 * mib);
  int64_t rows = 5 * mib, columns = 4 * kMib;
  return mended_by([&] { on(kFake0, rows * columns); }, [&] { columns = kMib; }, kFake0);
}

Outcome spurious(int64_t mib) {
  Fake fake(16 * mib);
  const Scope scope("weights");
  const at::Tensor held = on(kFake0, 4 * mib * kMib);
  fake.accelerator.fail_allocation(0, 1);
  return mended_by([&] { on(kFake0, mib * kMib); }, [] {}, kFake0);
}

/// Blocks that another stream uses are dropped, and it has not come to them yet.
Outcome waits_for_stream(int64_t mib) {
  const Fake fake(16 * mib, false, /*late_frees=*/true);
  const Scope scope("prefetch");
  const at::Tensor held = on(kFake0, 4 * mib * kMib);
  {
    const at::Tensor ahead = on(kFake0, 10 * mib * kMib);
    const c10::Stream other = test::fake_guard().getNewStream(kFake0);
    ahead.record_stream(other);
  }
  return mended_by(
      [&] { on(kFake0, 6 * mib * kMib); }, [] { test::fake_guard().synchronizeDevice(0); }, kFake0);
}

/// A comb of short-lived blocks between long-lived ones.
Outcome fragments(int64_t mib) {
  const Fake fake(16 * mib, /*in_pieces=*/true);
  std::vector<at::Tensor> teeth, gaps;
  {
    const Scope scope("cache");
    for (int i = 0; i < 8; ++i) {
      gaps.push_back(on(kFake0, mib * kMib));
      teeth.push_back(on(kFake0, mib * kMib));
    }
  }
  gaps.clear();
  return mended_by([&] { on(kFake0, 4 * mib * kMib); },
                   [&] {
                     teeth.resize(2);
                     c10::getDeviceAllocator(c10::DeviceType::PrivateUse1)->emptyCache();
                   },
                   kFake0);
}

struct Mlp : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(16, 64));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(64, 4));
  at::Tensor forward(const at::Tensor& x) { return out(torch::relu(in(x))); }
};

/// Activations of one large batch.
Outcome large_batch(int64_t mib) {
  const Fake fake(4 * mib);
  const auto net = std::make_shared<Mlp>();
  net->to(kFake0);
  const int64_t rows = mib * kMib / (64 * 4) * 3;  // 3 * mib in the first layer's output alone
  const at::Tensor x = torch::zeros({rows, 16}, at::TensorOptions(kFake0));
  const auto pass = [&](const MicroBatch& part) {
    const Scope scope("forward");
    (net->forward(part.of(x)).square().mean() * part.weight).backward();
  };
  const auto error = failure_of([&] { pass({.end = rows}); });
  EXPECT_TRUE(error);
  ExplainOptions options;
  options.owned = owned_tensors(*net);
  Outcome outcome{.report = explain(error, kFake0, options)};
  outcome.top = top_scope(outcome.report, kFake0);
  net->zero_grad();
  Guard guard(*net, {.retry_same_size = false});
  outcome.mended = guard.step(rows, pass).is_split;
  return outcome;
}

/// A replay buffer that nobody empties.
Outcome kept_tensors(int64_t mib) {
  const Fake fake(16 * mib);
  std::list<at::Tensor> replay;
  {
    const Scope scope("replay");
    for (int i = 0; i < 12; ++i) replay.push_back(on(kFake0, mib * kMib));
  }
  const Scope scope("step");
  return mended_by([&] { on(kFake0, 6 * mib * kMib); }, [&] { replay.resize(4); }, kFake0);
}

/// Weights, and two moments of each, on a device that has room for the weights.
Outcome large_state(int64_t mib) {
  const Fake fake(16 * mib);
  const auto width = static_cast<int64_t>(std::sqrt(5.0 * static_cast<double>(mib * kMib) / 4));
  torch::nn::Linear layer(torch::nn::LinearOptions(width, width).bias(false));
  layer->to(kFake0);
  auto adam = std::make_unique<torch::optim::Adam>(layer->parameters());
  layer->forward(torch::ones({1, width}, at::TensorOptions(kFake0))).sum().backward();
  const auto error = failure_of([&] {
    const Scope scope("optimizer");
    adam->step();  // 20 * mib for weight, gradient and two moments
  });
  EXPECT_TRUE(error);
  ExplainOptions options;
  options.owned = owned_tensors(*layer, adam.get());
  Outcome outcome{.report = explain(error, kFake0, options)};
  // A half of it, as each of two ranks would have it.
  adam.reset();
  options.owned.clear();
  layer = torch::nn::Linear(torch::nn::LinearOptions(width, width / 2).bias(false));
  layer->to(kFake0);
  torch::optim::Adam half(layer->parameters());
  layer->forward(torch::ones({1, width}, at::TensorOptions(kFake0))).sum().backward();
  outcome.mended = passes([&] { half.step(); });
  return outcome;
}

/// Outputs are kept with their graphs, on a machine that has no more.
Outcome leak(int64_t mib) {
  const MadeUpMachine machine(64 * kGib, 0, 0);
  const auto train = [&](int64_t capacity, bool leaks, std::string* scope) {
    LimitedCpu cpu;
    const OomWatch watch(machine.surroundings());
    torch::nn::Linear layer(64, 64);
    Tracker tracker(*layer, nullptr, {.level = Level::kTags});
    const LeakFinder finder(tracker);
    std::list<at::Tensor> kept;
    cpu.set_capacity(cpu.memory().live + capacity);
    const auto error = failure_of([&] {
      for (int i = 0; i < 40; ++i) {
        const Scope metrics("metrics");
        const at::Tensor said = layer->forward(torch::zeros({mib * kMib / 8 / 256, 64}));
        if (leaks) kept.push_back(said);
        said.mean().backward();
        layer->zero_grad();
        tracker.end_iteration();
        const LeakReport report = finder.report();
        if (report.leaks()) *scope = report.findings.front().scope;
      }
    });
    ExplainOptions options;
    options.machine.surroundings = machine.surroundings();
    return std::pair(error != nullptr, error ? explain(error, kHost, options) : OomReport{});
  };
  std::string scope;
  auto [failed, report] = train(5 * mib * kMib, /*leaks=*/true, &scope);
  EXPECT_TRUE(failed);
  Outcome outcome{.report = std::move(report)};
  outcome.top = top_scope(outcome.report, kHost);
  // What LeakFinder names is mended.
  outcome.mended = scope == "metrics" && !train(5 * mib * kMib, /*leaks=*/false, &scope).first;
  return outcome;
}

/// A capacity far below what the machine has.
Outcome low_cap(int64_t mib) {
  const MadeUpMachine machine(64 * kGib, 40 * kGib, kGib);
  LimitedCpu cpu;
  const OomWatch watch(machine.surroundings());
  const Recording recording(Level::kTags);
  const Scope scope("dataset");
  const at::Tensor held = on(kHost, 8 * mib * kMib);
  cpu.set_capacity(cpu.memory().live + mib * kMib);
  ExplainOptions options;
  options.machine.surroundings = machine.surroundings();
  return mended_by([&] { on(kHost, 3 * mib * kMib); },
                   [&] { cpu.set_capacity(cpu.memory().live + 4 * mib * kMib); },
                   kHost,
                   options);
}

/// `ulimit -v` leaves less than is asked for; the machine itself has it.
Outcome low_limit(int64_t mib) {
  const Recording recording(Level::kTags);
  const OomWatch watch;
  const std::string statm = diagnose::Surroundings().file("/proc/self/statm").value_or("");
  const int64_t addresses =
      to_int(statm.substr(0, statm.find(' '))).value_or(0) * ::sysconf(_SC_PAGESIZE);
  rlimit before{};
  ::getrlimit(RLIMIT_AS, &before);
  rlimit limit = before;
  limit.rlim_cur = static_cast<rlim_t>(addresses + 192 * kMib);
  const auto work = [&] { on(kHost, 256 * mib * kMib); };
  ::setrlimit(RLIMIT_AS, &limit);
  const auto error = failure_of(work);
  ::setrlimit(RLIMIT_AS, &before);
  EXPECT_TRUE(error);
  Outcome outcome{.report = explain(error, kHost)};
  outcome.mended = passes(work);
  return outcome;
}

const std::map<std::string, Seed> kSeeds{
    {"too large", {OomClass::kTooLarge, OomAction::kCheckShape, too_large}},
    {"spurious", {OomClass::kSpurious, OomAction::kRetry, spurious}},
    {"stream", {OomClass::kStream, OomAction::kSynchronize, waits_for_stream}},
    {"fragments", {OomClass::kFragments, OomAction::kJoinIdle, fragments}},
    {"pools", {OomClass::kPools, OomAction::kFreePools, test::graph_pools}},
    {"growth", {OomClass::kGrowth, OomAction::kFindLeak, leak}},
    {"cap", {OomClass::kCap, OomAction::kRaiseCap, low_cap}},
    {"host limit", {OomClass::kHostLimit, OomAction::kRaiseLimit, low_limit}},
    {"other process", {OomClass::kOthers, OomAction::kMoveAway, test::other_process}},
    {"outside tensors", {OomClass::kOutside, OomAction::kFreeOutside, test::contexts}},
    {"large batch", {OomClass::kLiveTensors, OomAction::kSmallerBatch, large_batch}},
    {"kept tensors", {OomClass::kLiveTensors, OomAction::kRelease, kept_tensors}},
    {"optimizer state", {OomClass::kLiveTensors, OomAction::kShard, large_state}},
};

/// Of those whose blocks are seen.
const std::map<std::string, std::string> kTops{{"spurious", "weights"},
                                               {"stream", "prefetch"},
                                               {"fragments", "cache"},
                                               {"growth", "metrics"},
                                               {"cap", "dataset"},
                                               {"large batch", "forward"},
                                               {"kept tensors", "replay"}};

class OomSuite : public ::testing::TestWithParam<std::tuple<std::string, int64_t>> {};

TEST_P(OomSuite, HasTheRightClassTopHolderAndAStepThatWorks) {
  const auto& [name, size] = GetParam();
  const Seed& seed = kSeeds.at(name);
  left_over = cpu_bytes_by_scope();
  const Outcome outcome = seed.run(size);
  EXPECT_EQ(class_text(outcome.report.cause.kind), class_text(seed.kind)) << outcome.report.text();
  EXPECT_EQ(action_name(outcome.report.cause.action), action_name(seed.action));
  if (const auto top = kTops.find(name); top != kTops.end()) {
    EXPECT_EQ(outcome.top, top->second) << outcome.report.text();
  }
  EXPECT_TRUE(outcome.mended) << outcome.report.text();
}

std::vector<std::string> seed_names() {
  std::vector<std::string> names;
  for (const auto& [name, seed] : kSeeds) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Seeds,
                         OomSuite,
                         ::testing::Combine(::testing::ValuesIn(seed_names()),
                                            ::testing::Values(1, 2, 4)),
                         [](const auto& instance) {
                           std::string name = std::get<0>(instance.param);
                           std::erase(name, ' ');
                           return concat(name, std::get<1>(instance.param));
                         });

}  // namespace
}  // namespace muster::memory
