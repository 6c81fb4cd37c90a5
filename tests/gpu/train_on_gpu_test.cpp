// `muster train` and its like on a real device, as a user starts them: beside the CPU's numbers.
#include <filesystem>

#include <ATen/DeviceAccelerator.h>
#include <gmock/gmock.h>
#include <signal.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tensor/device/device_memory.h"
#include "muster/tensor/safetensors.h"

#include "tests/gpu/gpu.h"
#include "tests/process/train/device_run.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::OnGpu;
using test::Words;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_process::Launched;

using GpuRun = test::DeviceRun;

GpuRun gpu_run(const Words& words, std::vector<std::string> environment = {}) {
  environment.emplace_back("TORCH_CPP_LOG_LEVEL=WARNING");  // so that a test sees them
  return test::device_run(words, std::move(environment));
}

Words small(const fs::path& output, const Words& more = {}) {
  return test::small_device_run(output, test::joined({"--json"}, more));
}

/// The newest weights of two runs, relative to the largest of each tensor.
double weights_apart(const fs::path& a, const fs::path& b) {
  const auto weights = [](const fs::path& run) {
    return tensor::read_safetensors(test::newest_checkpoint(run) / "model.safetensors");
  };
  const tensor::TensorFile ours = weights(a), theirs = weights(b);
  double most = ours.tensors.size() == theirs.tensors.size() ? 0 : 1e300;
  for (const auto& [name, tensor] : ours.tensors)
    most = std::max(most, test::apart(tensor, theirs.at(name)));
  return most;
}

class TrainOnGpu : public OnGpu {
 protected:
  const test::Folder folder_;
  fs::path at(const std::string& name) const { return folder_.path() / name; }

  /// With the same flags on the CPU and here.
  void expect_near_cpu(const Words& more, const Words& device, double tolerance) {
    SCOPED_TRACE(join(more, " ") + " " + join(device, " "));
    static int count = 0;
    const fs::path cpu = at(concat("cpu", ++count)), there = at(concat("gpu", count));
    const GpuRun expected = gpu_run(small(cpu, test::joined({"--device", "cpu"}, more)));
    ASSERT_EQ(expected.code, 0) << expected.err;
    const GpuRun run = gpu_run(small(there, test::joined(more, device)));
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_THAT(run.err, HasSubstr(" on cuda:0"));
    EXPECT_LE(weights_apart(there, cpu), tolerance);
    EXPECT_NEAR(parse_json(trim(run.out), "out").at("test_loss").get<double>(),
                parse_json(trim(expected.out), "out").at("test_loss").get<double>(),
                tolerance);
  }
};

TEST_F(TrainOnGpu, TrainsToTheWeightsOfTheCpu) {
  expect_near_cpu({}, {"--device", "cuda:0"}, 1e-4);
  expect_near_cpu(
      {"--optimizer", "adamw", "--accumulate-grad-batches", "2", "--gradient-clip-val", "0.5"},
      {"--device", "cuda"},
      1e-4);
  expect_near_cpu({"--test-weights", "best", "--tensorboard", "all", "--top-k", "2"},
                  {"--device", "auto"},
                  1e-4);
  // Convolutions are in TF32 by default, as in PyTorch.
  expect_near_cpu({"--model", "cnn:width=4,hidden=16"}, {"--device", "cuda:0"}, 3e-2);
  expect_near_cpu({"--precision", "bf16-mixed"}, {"--device", "cuda:0"}, 5e-2);
  expect_near_cpu({"--precision", "16-mixed"}, {"--device", "cuda:0"}, 5e-2);
}

TEST_F(TrainOnGpu, StrategiesOfOneProcessShareTheDevice) {
  for (const char* strategy : {"dp", "ddp", "zero1", "zero2", "fsdp", "pipeline:split=0/1"})
    expect_near_cpu({"--strategy", strategy, "--devices", "2"}, {"--device", "cuda:0"}, 1e-4);
}

TEST_F(TrainOnGpu, RanksThatAreProcessesShareItByHostMemory) {
  for (const char* strategy : {"ddp", "zero1", "zero2", "fsdp", "pipeline:split=0/1"}) {
    SCOPED_TRACE(strategy);
    const fs::path cpu = at(concat("cpu", strategy)), there = at(concat("gpu", strategy));
    const Words which{"--strategy", strategy};
    ASSERT_EQ(gpu_run(test::on_ranks(2, small(cpu, test::joined(which, {"--device", "cpu"})))).code,
              0);
    const GpuRun run =
        gpu_run(test::on_ranks(2, small(there, test::joined(which, {"--device", "cuda:0"}))));
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_THAT(run.err, HasSubstr("; tensors of cuda by host memory"));
    EXPECT_THAT(run.err, HasSubstr("2 ranks of this machine share cuda:0"));
    EXPECT_LE(weights_apart(there, cpu), 1e-4);
  }
}

TEST_F(TrainOnGpu, WhatGoesBesideAStrategyHasTheNumbersOfTheCpu) {
  for (const Words& more : std::vector<Words>{
           {"--strategy", "fsdp", "--ema-decay", "0.9"},
           {"--strategy", "fsdp", "--activation-checkpointing", "blocks"},
           {"--strategy", "pipeline:schedule=zbv,micro_batches=4", "--ema-decay", "0.9"},
           {"--strategy", "pipeline:micro_batches=4", "--activation-checkpointing", "blocks"}})
    expect_near_cpu(test::joined({"--model", "mlp:hidden=16,layers=6", "--devices", "2"}, more),
                    {"--device", "cuda:0"},
                    1e-4);
}

// The context is lost after it, and nothing on the device can be read.
TEST_F(TrainOnGpu, AnIndexOutsideIsNamedByTheCpu) {
  for (const char* workers : {"0", "2"}) {
    const GpuRun run = gpu_run({"run",
                                "--nproc-per-node",
                                "1",
                                "--",
                                test::program_path("muster_failing_task"),
                                "--at",
                                "index",
                                "--on",
                                "0",
                                "--workers",
                                workers,
                                "--device",
                                "cuda:0",
                                "--output",
                                at(workers)});
    EXPECT_NE(run.code, 0);
    EXPECT_THAT(run.err,
                HasSubstr("step 3 on cuda:0: device-side assert triggered, in cross_entropy_loss"));
    EXPECT_THAT(run.err, HasSubstr("target[0] = 7, "));
    std::puts(run.err.c_str());
  }
}

// NCCL counts it as a mistake, so it is refused before anybody waits for its communicators.
TEST_F(TrainOnGpu, TwoRanksOfOneDeviceAreRefusedByNcclInWords) {
  const GpuRun run = gpu_run(
      test::on_ranks(2, small(at("a"), {"--device", "cuda:0", "--backend", "cpu:gloo,cuda:nccl"})));
  EXPECT_NE(run.code, 0);
  EXPECT_THAT(run.err, HasSubstr("backend nccl cannot be used here"));
  EXPECT_THAT(run.err, HasSubstr("ranks 0 and 1 share cuda:0"));
}

// NCCL 2.30 lets two ranks have one device when it is told so.
TEST_F(TrainOnGpu, TwoRanksTalkByNccl) {
  for (const char* strategy : {"ddp", "zero1", "zero2", "fsdp"}) {
    SCOPED_TRACE(strategy);
    const fs::path cpu = at(concat("cpu", strategy)), there = at(concat("gpu", strategy));
    const Words which{"--strategy", strategy};
    ASSERT_EQ(gpu_run(test::on_ranks(2, small(cpu, test::joined(which, {"--device", "cpu"})))).code,
              0);
    const GpuRun run = gpu_run(
        test::on_ranks(
            2,
            small(there,
                  test::joined(which, {"--device", "cuda:0", "--backend", "cpu:gloo,cuda:nccl"}))),
        {"NCCL_MULTI_RANK_GPU_ENABLE=1"});
    if (run.err.find("Duplicate GPU detected") != std::string::npos)
      GTEST_SKIP() << "this NCCL is older than 2.30";
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_LE(weights_apart(there, cpu), 1e-4);
  }
}

TEST_F(TrainOnGpu, OneRankByNcclIsTheRunWithoutAGroup) {
  const GpuRun alone = gpu_run(small(at("alone"), {"--device", "cuda:0"}));
  ASSERT_EQ(alone.code, 0) << alone.err;
  for (const char* strategy : {"ddp", "zero2", "fsdp"}) {
    const GpuRun run = gpu_run(test::on_ranks(
        1, small(at(strategy), {"--strategy", strategy, "--device", "cuda", "--backend", "nccl"})));
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_THAT(run.err, Not(HasSubstr("[W")))
        << "LibTorch's warnings of a group that is not ended";
    EXPECT_LE(weights_apart(at(strategy), at("alone")), 1e-6);
  }
}

TEST_F(TrainOnGpu, ABrokenRunEndsInTheBitsOfAWholeOne) {
  const Words flags{"--model",
                    "transformer:width=16,heads=2,layers=1,feedforward=32,dropout=0.2",
                    "--device",
                    "cuda:0",
                    "--deterministic"};
  const GpuRun whole = gpu_run(small(at("whole"), flags));
  ASSERT_EQ(whole.code, 0) << whole.err;
  ASSERT_EQ(gpu_run(small(at("parts"), test::joined(flags, {"--max-steps", "7"}))).code, 0);
  const GpuRun rest =
      gpu_run({"train", "--resume", at("parts"), "--max-steps", "0", "--device", "cuda:0"});
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(test::saved_bits(at("parts")), test::saved_bits(at("whole")));
}

TEST_F(TrainOnGpu, GoesOnFromCpuToDeviceAndBack) {
  ASSERT_EQ(gpu_run(small(at("whole"), {"--device", "cpu"})).code, 0);
  ASSERT_EQ(gpu_run(small(at("parts"), {"--device", "cpu", "--max-steps", "7"})).code, 0);
  const GpuRun there =
      gpu_run({"train", "--resume", at("parts"), "--max-steps", "21", "--device", "cuda:0"});
  ASSERT_EQ(there.code, 0) << there.err;
  EXPECT_THAT(there.err, HasSubstr("the checkpoint is of a run on cpu, and this one is on cuda"));
  const GpuRun back =
      gpu_run({"train", "--resume", at("parts"), "--max-steps", "0", "--device", "cpu"});
  ASSERT_EQ(back.code, 0) << back.err;
  EXPECT_THAT(back.err, HasSubstr("the checkpoint is of a run on cuda, and this one is on cpu"));
  EXPECT_LE(weights_apart(at("parts"), at("whole")), 1e-4);
  const GpuRun cpu = gpu_run({"evaluate", at("parts"), "--json", "--device", "cpu"});
  const GpuRun gpu = gpu_run({"evaluate", at("parts"), "--json", "--device", "cuda:0"});
  ASSERT_EQ(gpu.code, 0) << gpu.err;
  EXPECT_NEAR(parse_json(trim(gpu.out), "out").at("loss").get<double>(),
              parse_json(trim(cpu.out), "out").at("loss").get<double>(),
              1e-5);
  const GpuRun asked = gpu_run({"predict",
                                at("parts"),
                                "--output",
                                at("there.csv"),
                                "--probabilities",
                                "--device",
                                "cuda:0"});
  EXPECT_EQ(asked.code, 0) << asked.err;
}

/// 3.2 GiB of the device are this process's: a batch whose activations are some 4 GiB.
const std::vector<std::string> kCapped{"PYTORCH_CUDA_ALLOC_CONF=per_process_memory_fraction:0.04"};

Words too_large(const fs::path& output, const Words& more = {}) {
  return test::joined({"train",
                       "--data",
                       "synthetic:samples=131072,test_samples=60,size=8,classes=4",
                       "--model",
                       "mlp:hidden=2048,layers=3",
                       "--batch-size",
                       "131072",
                       "--workers",
                       "0",
                       "--epochs",
                       "2",
                       "--device",
                       "cuda:0",
                       "--validation-samples",
                       "0",
                       "--output",
                       output},
                      more);
}

TEST_F(TrainOnGpu, ABatchThatDoesNotFitIsExplained) {
  const GpuRun run = gpu_run(too_large(at("a")), kCapped);
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("cuda:0 is out of memory in the first step: "));
  EXPECT_THAT(run.err, HasSubstr("\ncause: "));
  EXPECT_THAT(run.err, HasSubstr("\nreport: "));
  const std::string report = read_file(at("a") / "out_of_memory.txt");
  EXPECT_THAT(report, ContainsRegex("parameter +[0-9.]+ [MG]iB"));
  std::puts((run.err + report).c_str());
}

TEST_F(TrainOnGpu, ABatchThatDoesNotFitIsSplit) {
  const GpuRun run = gpu_run(too_large(at("a"), {"--on-oom", "split"}), kCapped);
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err + run.out, HasSubstr("the step is made again, "));
  std::puts((run.err + run.out).c_str());
  const GpuRun whole = gpu_run(too_large(at("b")));
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_LE(weights_apart(at("a"), at("b")), 1e-4);
}

TEST_F(TrainOnGpu, TheBatchThatFitsIsFound) {
  Words words = too_large(at("a"));
  *(std::find(words.begin(), words.end(), "--batch-size") + 1) = "auto";
  const GpuRun run = gpu_run(words, kCapped);
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err + run.out, ContainsRegex("batch size [0-9]+ found"));
  std::puts((run.err + run.out).c_str());
}

TEST_F(TrainOnGpu, TheBatchThatFitsAPipelineIsFound) {
  Words words = too_large(
      at("a"), {"--strategy", "pipeline:micro_batches=4", "--devices", "2", "--on-oom", "split"});
  *(std::find(words.begin(), words.end(), "--batch-size") + 1) = "auto";
  const GpuRun run = gpu_run(words, kCapped);
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err + run.out, ContainsRegex("batch size [0-9]+ found"));
  std::puts((run.err + run.out).c_str());
}

// This one: the driver knows its number and bytes, and /proc its name.
TEST_F(TrainOnGpu, WhoHoldsTheDeviceIsNamed) {
  at::accelerator::emptyCache();  // which counts as free, here alone
  std::vector<at::Tensor> held;
  while (tensor::free_bytes_of(test::kGpu) > uint64_t{2} << 30)
    held.push_back(
        torch::empty({int64_t{1} << 30}, at::TensorOptions(test::kGpu).dtype(at::kByte)));
  const GpuRun run = gpu_run(too_large(at("a")));
  held.clear();
  at::accelerator::emptyCache();
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("\ncause: other processes: "));
  const std::string report = read_file(at("a") / "out_of_memory.txt");
  EXPECT_THAT(report, HasSubstr("gpu_tests"));
  std::puts((run.err + report).c_str());
}

// What `muster gpu` shows of it, in another process, beside the driver's numbers.
TEST_F(TrainOnGpu, ARunThatGoesOnSaysWhatItsAllocatorHolds) {
  Launched run(test::train_uneven({"--output", at("a"), "--device", "cuda:0", "--epochs", "5000"}),
               {.environment = {"OMP_NUM_THREADS=1"}});
  ASSERT_TRUE(run.wait_for("epoch 3/5000"));
  const GpuRun seen = gpu_run({"gpu", "--json"});
  run.signal(SIGTERM);
  EXPECT_EQ(run.wait(std::chrono::seconds(60)).code, 130);
  const Json machine = parse_json(trim(seen.out), "out");
  bool found = false;
  for (const Json& process : machine.at("devices")[0].at("processes")) {
    if (process.at("pid") != run.pid()) continue;
    found = true;
    ASSERT_FALSE(process.at("allocator").is_null()) << process.dump(1);
    EXPECT_EQ(process.at("allocator").at("name"), "cuda:0");
    EXPECT_GT(process.at("allocator").at("allocated_bytes").get<int64_t>(), 0);
    EXPECT_THAT(process.at("published").at("doing").get<std::string>(), HasSubstr("epoch "));
  }
  EXPECT_TRUE(found) << seen.out;
}

TEST_F(TrainOnGpu, ATraceHasTheDevicesRows) {
  const GpuRun run = gpu_run(small(at("a"), {"--device", "cuda:0", "--trace", at("trace.json")}));
  ASSERT_EQ(run.code, 0) << run.err;
  const std::string trace = read_file(at("trace.json"));
  EXPECT_THAT(trace, HasSubstr("copies"));
  EXPECT_THAT(trace, HasSubstr("cuda:0"));
}

TEST_F(TrainOnGpu, ADeviceThatIsNotThereIsRefused) {
  const GpuRun run = gpu_run(small(at("a"), {"--device", "cuda:7"}));
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("device cuda:7: there "));
}

}  // namespace
}  // namespace muster
