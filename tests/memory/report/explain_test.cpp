// What explain() finds of failures on the CPU, and of errors of CUDA from their texts.
#include "muster/memory/report/explain.h"

#include <algorithm>
#include <sstream>

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/base/text_table.h"
#include "muster/memory/allocator/scope.h"
#include "muster/memory/tracker/recent.h"
#include "muster/memory/tracker/tracker.h"
#include "muster/testing/cpu/limited_cpu.h"

#include "tests/memory/report/made_up_machine.h"
#include "tests/support/fake_driver.h"
#include "tests/support/thrown_by.h"

namespace muster::memory {
namespace {

using test::kGib;
using test::kMib;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::LimitedCpu;
using ::testing::Not;

const c10::Device kCpu(c10::kCPU);

at::Tensor bytes_of(int64_t bytes) { return torch::empty({bytes}, torch::kByte); }

/// Nobody but this process, and no byte left.
test::MadeUpMachine full_machine() { return {64 * kGib, 0, 63 * kGib}; }

ExplainOptions on(const test::MadeUpMachine& machine) {
  ExplainOptions options;
  options.machine.surroundings = machine.surroundings();
  return options;
}

// More than programs that leak, in tests before, have left behind.
TEST(Explain, HoldersAreThoseOfTheFailureNotOfTheCatch) {
  const test::MadeUpMachine machine = full_machine();
  const OomWatch watch(machine.surroundings());
  const Recording recording(Level::kTags);
  LimitedCpu cpu;
  const int64_t before = cpu.memory().live;
  cpu.set_capacity(before + 100 * kMib);
  const auto error = test::thrown_by([] {
    const Scope scope("decoder");
    const at::Tensor held = bytes_of(60 * kMib), more = bytes_of(20 * kMib);
    bytes_of(30 * kMib);
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(cpu.memory().live, before) << "it has unwound";
  const OomReport report = explain(error, kCpu, on(machine));
  const OomFacts& facts = report.facts;
  EXPECT_TRUE(facts.at_failure);
  EXPECT_EQ(facts.asked, 30 * kMib);
  EXPECT_EQ(facts.live, before + 80 * kMib);
  EXPECT_EQ(facts.cap, before + 100 * kMib);
  EXPECT_EQ(facts.free, 20 * kMib);
  EXPECT_EQ(facts.cap_kind, CapKind::kCapacity);
  ASSERT_FALSE(facts.holders.empty());
  const Holder& top = facts.holders.front();
  EXPECT_EQ(top.scope, "decoder");
  EXPECT_EQ(top.op, "aten::empty");
  EXPECT_EQ(top.bytes, 80 * kMib);
  EXPECT_EQ(top.blocks, 2);
  EXPECT_EQ(report.cause.kind, OomClass::kOutside) << "63 GiB of the process are no tensors";
}

TEST(Explain, OwnedTensorsAreKnownWithoutAnyRecordingOfOperators) {
  const test::MadeUpMachine machine = full_machine();
  const OomWatch watch(machine.surroundings());
  LimitedCpu cpu;
  const OwnerBytes before = cpu_owner_bytes();  // other tests of the process leak on purpose
  torch::nn::Linear layer(512, 512);            // 1 MiB and 2 KiB
  torch::optim::SGD sgd(layer->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  layer->forward(torch::ones({1, 512})).sum().backward();
  sgd.step();
  const int64_t weights = 512 * 512 * 4 + 512 * 4;
  cpu.set_capacity(cpu.memory().live + kMib);
  const auto error = test::thrown_by([&] { layer->forward(torch::ones({4096, 512})); });
  ASSERT_TRUE(error);
  ExplainOptions options = on(machine);
  options.owned = owned_tensors(*layer, &sgd);
  const OomReport report = explain(error, kCpu, options);
  const auto of = [&](Owner owner) {
    return report.facts.owners[static_cast<size_t>(owner)] - before[static_cast<size_t>(owner)];
  };
  EXPECT_TRUE(report.facts.by_owner);
  EXPECT_EQ(of(Owner::kParameter), weights);
  EXPECT_EQ(of(Owner::kGradient), weights);
  EXPECT_EQ(of(Owner::kOptimizerState), weights);
  int64_t all = 0;
  for (const int64_t bytes : report.facts.owners) all += bytes;
  EXPECT_EQ(all, report.facts.live);
}

// A step that is given up drops its gradients before anybody can ask; who has noted where they lay tells.
TEST(Explain, WhatIsFreedSinceTheFailureIsKnownWhereItLay) {
  const test::MadeUpMachine machine = full_machine();
  const OomWatch watch(machine.surroundings());
  LimitedCpu cpu;
  const OwnerBytes before = cpu_owner_bytes();
  torch::nn::Linear layer(512, 512);
  layer->forward(torch::ones({1, 512})).sum().backward();
  const int64_t weights = 512 * 512 * 4 + 512 * 4;
  cpu.set_capacity(cpu.memory().live + kMib);
  const auto error = test::thrown_by([&] { layer->forward(torch::ones({4096, 512})); });
  ASSERT_TRUE(error);
  ExplainOptions options = on(machine);
  for (const OwnedTensor& one : owned_tensors(*layer))
    if (one.owner == Owner::kGradient) options.freed.push_back(memory_of(one).value());
  layer->zero_grad();
  options.owned = owned_tensors(*layer);
  const OomFacts facts = explain(error, kCpu, options).facts;
  for (const Owner owner : {Owner::kParameter, Owner::kGradient}) {
    const auto place = static_cast<size_t>(owner);
    EXPECT_EQ(facts.owners[place] - before[place], weights) << place;
  }
}

TEST(Explain, ATensorWhoseMemoryIsAwayOwnsNothing) {
  at::Tensor tensor = bytes_of(16);
  EXPECT_TRUE(memory_of({.tensor = tensor}));
  tensor.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr());
  EXPECT_FALSE(memory_of({.tensor = tensor}));
  EXPECT_FALSE(memory_of({}));
}

TEST(Explain, LayersAreNamedWhereTheyAreRecorded) {
  const test::MadeUpMachine machine = full_machine();
  const OomWatch watch(machine.surroundings());
  LimitedCpu cpu;
  torch::nn::Sequential net;
  net->push_back("narrow", torch::nn::Linear(64, 64));
  net->push_back("wide", torch::nn::Linear(64, 4096));
  const Tracker tracker(*net, nullptr, {.level = Level::kLayers});
  const at::Tensor x = torch::ones({256, 64});
  cpu.set_capacity(cpu.memory().live + 5 * kMib);  // wide gives 4 MiB, its relu as many
  const auto error = test::thrown_by([&] { torch::relu(net->forward(x)); });
  ASSERT_TRUE(error);
  const OomReport report = explain(error, kCpu, on(machine));
  const auto activations_of = [&](const std::string& layer) {
    int64_t bytes = 0;
    for (const Holder& holder : report.facts.holders) {
      if (holder.owner == Owner::kActivation && holder.layer == layer) bytes += holder.bytes;
    }
    return bytes;
  };
  EXPECT_EQ(activations_of("wide"), 256 * 4096 * 4);
  EXPECT_EQ(activations_of("narrow"), 256 * 64 * 4);
}

TEST(Explain, TheLastIterationsOfATrackerAreInIt) {
  LimitedCpu cpu;
  torch::nn::Linear layer(8, 8);
  Tracker tracker(*layer, nullptr, {.level = Level::kCounters});
  std::vector<IterationEnd> expected;
  for (int i = 0; i < 40; ++i) {
    const at::Tensor held = bytes_of(1000 * (i + 1));
    const IterationMemory& ended = tracker.end_iteration();
    expected.push_back({ended.iteration, ended.end_bytes, ended.peak_bytes});
  }
  expected.erase(expected.begin(), expected.end() - kRecentIterations);
  EXPECT_EQ(explain(nullptr, kCpu).facts.iterations, expected);
  const torch::nn::Linear other(4, 4);
}

TEST(Explain, AFailureIsFoundByItsWordsAndTakenOnce) {
  const test::MadeUpMachine machine = full_machine();
  const OomWatch watch(machine.surroundings());
  LimitedCpu cpu;
  cpu.set_capacity(cpu.memory().live + 100'000);
  const auto first = test::thrown_by([] { bytes_of(200'001); });
  const auto second = test::thrown_by([] { bytes_of(200'003); });
  EXPECT_EQ(explain(first, kCpu, on(machine)).facts.asked, 200'001);
  EXPECT_TRUE(explain(second, kCpu, on(machine)).facts.at_failure);
  const OomReport again = explain(second, kCpu, on(machine));
  EXPECT_FALSE(again.facts.at_failure) << "what is told was of another failure";
  EXPECT_EQ(again.facts.asked, 195 * 1024) << "the text says 195 KiB";
}

TEST(Explain, WithoutAWatchItSaysWhatIsKnownWhenTheErrorIsCaught) {
  const test::MadeUpMachine machine = full_machine();
  LimitedCpu cpu;
  cpu.set_capacity(cpu.memory().live + kMib);
  const auto error = test::thrown_by([] { bytes_of(2 * kMib); });
  const OomReport report = explain(error, kCpu, on(machine));
  EXPECT_FALSE(report.facts.at_failure);
  EXPECT_EQ(report.facts.asked, 2 * kMib);
  EXPECT_EQ(report.facts.live, cpu.memory().live);
  EXPECT_EQ(report.facts.free, kMib);
}

TEST(Explain, OtherProcessesOfTheMachineAreNamed) {
  const test::MadeUpMachine machine(64 * kGib, kGib, 2 * kGib);
  machine.process(4711, 50 * kGib, "python");
  machine.process(12, kGib, "sshd");
  const auto error = std::make_exception_ptr(c10::Error(
      {__func__, __FILE__, 1},
      "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: "
      "you tried to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)"));
  const OomReport report = explain(error, kCpu, on(machine));
  ASSERT_EQ(report.facts.processes.size(), 2U);
  EXPECT_EQ(report.facts.processes[0].pid, 4711);
  EXPECT_EQ(report.facts.processes[0].command, "python");
  EXPECT_EQ(report.facts.others, 61 * kGib);
  EXPECT_EQ(report.facts.asked, 8 * kGib);
  EXPECT_EQ(report.cause.kind, OomClass::kOthers);
}

std::exception_ptr of_cuda(const std::string& text) {
  return std::make_exception_ptr(c10::OutOfMemoryError({__func__, __FILE__, 1}, text));
}

ExplainOptions nobody_asked() {
  ExplainOptions options;
  options.processes = 0;
  return options;
}

const c10::Device kCuda(c10::kCUDA, 0);

// As public reports have them, with the sentences of LibTorch's CUDACachingAllocator.cpp.
TEST(Explain, TextsOfCudaSayTheNumbersOfTheFailure) {
  const OomFacts facts =
      explain(
          of_cuda("CUDA out of memory. Tried to allocate 768.00 MiB. GPU 0 has a total capacity "
                  "of 83.05 GiB of which 140.50 MiB is free. Including non-PyTorch memory, this "
                  "process has 23.25 GiB memory in use. Of the allocated memory 21.50 GiB is "
                  "allocated by PyTorch, with 104.00 MiB allocated in private pools (e.g., CUDA "
                  "Graphs), and 512.00 MiB is reserved by PyTorch but unallocated."),
          kCuda,
          nobody_asked())
          .facts;
  EXPECT_EQ(facts.asked, 768 * kMib);
  EXPECT_EQ(facts.free, 140 * kMib + kMib / 2);
  EXPECT_EQ(facts.live, 21 * kGib + kGib / 2);
  EXPECT_EQ(facts.idle, 512 * kMib);
  EXPECT_EQ(facts.outside, kGib + kGib / 4);  // 23.25 - 21.5 - 0.5
  EXPECT_EQ(facts.cap_kind, CapKind::kDevice);
}

TEST(Explain, AShareOfTheDeviceIsTheCapOnceItIsUsedUp) {
  const OomReport report = explain(
      of_cuda("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
              "80.00 GiB of which 60.00 GiB is free. Including non-PyTorch memory, this "
              "process has 20.00 GiB memory in use. 20.00 GiB allowed; Of the allocated memory "
              "19.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but "
              "unallocated."),
      kCuda,
      nobody_asked());
  EXPECT_EQ(report.facts.cap, 20 * kGib);
  EXPECT_EQ(report.facts.free, kGib);
  EXPECT_EQ(report.facts.beyond, 59 * kGib);
  EXPECT_EQ(report.cause.kind, OomClass::kCap);
  EXPECT_GT(*report.facts.outside, 0);
  EXPECT_THAT(report.text(), Not(HasSubstr("outside tensors"))) << "it is none of the share";
}

TEST(Explain, ALongCommandKeepsItsProgramsName) {
  OomReport report;
  report.facts.processes = {{.pid = 4711,
                             .command =
                                 "/usr/bin/python3 /home/ann/work/train_everything.py --data "
                                 "/mnt/data --output /home/ann/runs/again",
                             .user = "ann",
                             .bytes = kGib}};
  const std::string text = report.text(80);
  EXPECT_THAT(text, HasSubstr("/usr/bin/python3"));
  EXPECT_THAT(text, HasSubstr("..."));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(columns_of(line), 80U) << line;
}

TEST(Explain, InAContainerTheProcessThatIsThisOneIsNoOther) {
  const OomReport report = explain(
      of_cuda("CUDA out of memory. Tried to allocate 21.00 GiB. GPU 0 has a total capacity of "
              "22.30 GiB of which 50.00 MiB is free. Process 189021 has 22.25 GiB memory in "
              "use. Of the allocated memory 21.00 GiB is allocated by PyTorch, and 16.00 MiB "
              "is reserved by PyTorch but unallocated."),
      kCuda,
      nobody_asked());
  EXPECT_EQ(report.facts.others, 0);
  EXPECT_THAT(report.facts.processes, IsEmpty());
  EXPECT_EQ(report.facts.outside, kGib + kGib / 4 - 16 * kMib);
  EXPECT_EQ(report.cause.kind, OomClass::kLiveTensors);
}

TEST(Explain, TheDriverNamesTheProcessesOfTheErrorsText) {
  const test::MadeUpMachine machine(64 * kGib, 40 * kGib, kGib);
  machine.has_own_pids();
  machine.process(4711, kGib, "python train.py");
  const test::FakeDriver driver(
      Json::array({test::fake_device(0, {{{"pid", 4711}, {"bytes", 20 * test::kFakeGiB}}})}));
  ExplainOptions options = on(machine);
  options.machine.nvml = test::FakeDriver::library();
  const OomReport report = explain(
      of_cuda("CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of "
              "40.00 GiB of which 1.00 GiB is free. Process 4711 has 20.00 GiB memory in use. "
              "Including non-PyTorch memory, this process has 18.50 GiB memory in use. Of the "
              "allocated memory 18.00 GiB is allocated by PyTorch, and 0 bytes is reserved by "
              "PyTorch but unallocated."),
      kCuda,
      options);
  ASSERT_EQ(report.facts.processes.size(), 1U);
  EXPECT_EQ(report.facts.processes[0].command, "python train.py");
  EXPECT_EQ(report.facts.processes[0].bytes, 20 * kGib);
  EXPECT_EQ(report.cause.kind, OomClass::kOthers);
  EXPECT_THAT(report.cause.because, HasSubstr("process 4711 (python train.py) 20 GiB of them"));
}

TEST(Explain, ErrorsOfOtherKindsGetWhatIsKnown) {
  const OomReport report =
      explain(std::make_exception_ptr(std::runtime_error("no")), kCuda, nobody_asked());
  EXPECT_EQ(report.cause.kind, OomClass::kUnknown);
  EXPECT_EQ(report.facts.words, "");
}

OomReport long_report() {
  OomReport report;
  OomFacts& facts = report.facts;
  facts = {.device = "cuda:0", .rank = 3, .at_failure = true};
  facts.asked = 2 * kGib;
  facts.total = facts.cap = 24 * kGib;
  facts.cap_kind = CapKind::kDevice;
  facts.free = kGib;
  facts.live = 20 * kGib;
  facts.idle = 2 * kGib;
  facts.largest_idle = 512 * kMib;
  facts.others = kGib;
  facts.by_owner = true;
  facts.owners[static_cast<size_t>(Owner::kActivation)] = 15 * kGib;
  facts.owners[static_cast<size_t>(Owner::kParameter)] = 5 * kGib;
  for (int i = 0; i < 30; ++i)
    facts.holders.push_back({.scope = concat("train/a_scope_with_a_long_name/part_", i),
                             .op = "aten::scaled_dot_product_attention",
                             .layer = concat("encoder.layers.", i, ".self_attention"),
                             .owner = Owner::kActivation,
                             .bytes = (30 - i) * 30 * kMib,
                             .blocks = 123'456});
  facts.processes = {
      {.pid = 12345, .command = std::string(200, 'x'), .user = "somebody", .bytes = kGib}};
  for (int i = 0; i < 20; ++i) facts.iterations.push_back({i + 100, 19 * kGib, 20 * kGib});
  report.cause = classify(facts);
  return report;
}

TEST(OomReport, ItsTextFitsAnyTerminalAndEndsItsLines) {
  const OomReport report = long_report();
  for (const size_t width : {80, 100, 60}) {
    const std::string text = report.text(width);
    ASSERT_FALSE(text.empty());
    EXPECT_EQ(text.back(), '\n');
    for (const std::string& line : split(text, '\n')) EXPECT_LE(columns_of(line), width) << line;
  }
  const std::string text = report.text();
  EXPECT_THAT(text,
              HasSubstr("out of memory on rank 3, cuda:0: 2.0 GiB asked for, 1.0 GiB free\n"));
  EXPECT_THAT(text, HasSubstr("of 20 more\n")) << "of 30 holders 10 are shown";
  EXPECT_THAT(text, HasSubstr("fragmentation         0.75  0: one block; 1: crumbs\n"));
}

TEST(OomReport, ItsJsonHasTheNumbersAndLeavesOutWhatNobodyKnows) {
  const OomReport report = long_report();
  const Json json = parse_json(json_text(json_of(report)), "the report");
  EXPECT_EQ(json.at("cause").at("class"), "fragments");
  EXPECT_EQ(json.at("rank"), 3);
  EXPECT_EQ(json.at("bytes").at("asked"), 2 * kGib);
  EXPECT_EQ(json.at("owners").at("activation"), 15 * kGib);
  EXPECT_EQ(json.at("holders").size(), 30U);
  EXPECT_EQ(json.at("iterations").back().at("iteration"), 119);
  EXPECT_FALSE(json.at("bytes").contains("in_pools"));
  const Json bare = json_of(OomReport{.facts = {.device = "cpu"}});
  EXPECT_FALSE(bare.contains("owners"));
  EXPECT_THAT(bare.at("bytes"), IsEmpty());
}

}  // namespace
}  // namespace muster::memory
