// `muster train --device`, evaluate and predict, on fake devices: the CPU's numbers, bit for bit, and
// no race between streams, since each of these runs throws at the first one.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "tests/process/train/device_run.h"
#include "tests/support/folder.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::device_run;
using test::DeviceRun;
using test::saved_bits;
using test::Words;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

Words small(const fs::path& output, const Words& more = {}) {
  return test::small_device_run(output, more);
}

/// With the same flags on the CPU and on `device`: weights, optimizer and the test's numbers.
void expect_same_as_cpu(const Words& more, const Words& device) {
  SCOPED_TRACE(join(more, " ") + " " + join(device, " "));
  const test::Folder folder;
  const fs::path cpu = folder.path() / "cpu", there = folder.path() / "there";
  const DeviceRun expected = device_run(small(cpu, test::joined({"--json"}, more)));
  ASSERT_EQ(expected.code, 0) << expected.err;
  const DeviceRun run =
      device_run(small(there, test::joined(test::joined({"--json"}, more), device)));
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(saved_bits(there), saved_bits(cpu));
  const Json own = parse_json(trim(run.out), "out"), of_cpu = parse_json(trim(expected.out), "out");
  EXPECT_EQ(own.at("test_loss"), of_cpu.at("test_loss"));
  EXPECT_EQ(own.at("test_accuracy"), of_cpu.at("test_accuracy"));
  EXPECT_THAT(run.err, HasSubstr(" on fake:0"));
}

TEST(DeviceCommand, TrainsToTheBitsOfTheCpu) {
  for (const Words& more : {Words{},
                            {"--model", "cnn:width=4,hidden=16"},
                            {"--precision", "bf16-mixed"},
                            {"--precision", "16-mixed", "--optimizer", "adamw"},
                            {"--accumulate-grad-batches", "2", "--gradient-clip-val", "0.5"},
                            {"--test-weights", "best", "--tensorboard", "all", "--top-k", "2"}})
    expect_same_as_cpu(more, {"--device", "fake:0"});
}

TEST(DeviceCommand, TrainsRanksOfOneProcessOnADeviceEach) {
  for (const char* strategy : {"dp", "ddp", "zero1", "zero2", "fsdp", "pipeline:split=0/1"})
    expect_same_as_cpu({"--strategy", strategy, "--devices", "2"}, {"--device", "fake"});
  expect_same_as_cpu({"--strategy", "zero1:dtype=bfloat16", "--devices", "2"},
                     {"--device", "fake"});
}

// Over gloo too, whose own tensors are the CPU's: gradients go by host memory.
TEST(DeviceCommand, TrainsRanksThatAreProcessesOnADeviceEach) {
  const test::Folder folder;
  for (const char* strategy : {"ddp", "zero1", "zero2", "fsdp", "pipeline:split=0/1"}) {
    const fs::path cpu = folder.path() / strategy / "cpu";
    ASSERT_EQ(device_run(test::on_ranks(2, small(cpu, {"--strategy", strategy}))).code, 0);
    for (const char* backend : {"auto", "gloo"}) {
      const fs::path there = folder.path() / strategy / backend;
      const DeviceRun run = device_run(test::on_ranks(
          2, small(there, {"--strategy", strategy, "--device", "fake", "--backend", backend})));
      ASSERT_EQ(run.code, 0) << run.err;
      EXPECT_THAT(run.err, HasSubstr("; tensors of fake by host memory"));
      EXPECT_EQ(saved_bits(there), saved_bits(cpu)) << strategy << ' ' << backend;
    }
  }
}

TEST(DeviceCommand, RanksOnOneNumberedDeviceSaySo) {
  const test::Folder folder;
  const DeviceRun run =
      device_run(test::on_ranks(2, small(folder.path() / "a", {"--device", "fake:0"})));
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("2 ranks of this machine share fake:0"));
  const DeviceRun listed = device_run(test::on_ranks(
      2, small(folder.path() / "b", {"--device", "fake", "--devices", "3,1", "--explain"})));
  EXPECT_THAT(listed.out, HasSubstr("device        fake:3, fake:1\n"));
  const DeviceRun few =
      device_run(test::on_ranks(2, small(folder.path() / "c", {"--device", "fake"})),
                 {"MUSTER_FAKE_DEVICES=1"});
  EXPECT_NE(few.code, 0);
  EXPECT_THAT(few.err, HasSubstr("each rank of a machine has a device of its own"));
}

TEST(DeviceCommand, RanksOnUnlikeKindsAreRefusedOnAllOfThem) {
  const test::Folder folder;
  std::string line = test::program_path("muster");
  for (const std::string& word : small(folder.path() / "a")) line += concat(" '", word, "'");
  const DeviceRun run = device_run(
      {"run",
       "--nproc-per-node",
       "2",
       "--",
       "sh",
       "-c",
       concat(
           "if [ $RANK = 0 ]; then kind=cpu; else kind=fake; fi; exec ", line, " --device $kind")});
  EXPECT_NE(run.code, 0);
  EXPECT_THAT(
      run.err,
      HasSubstr("all ranks of a job compute on one kind of device (got rank 0 on cpu, rank 1 "
                "on fake:1)"));
}

TEST(DeviceCommand, ChannelsLastAndDeterminismDoNotDependOnTheDevice) {
  expect_same_as_cpu({"--model", "cnn:width=4,hidden=16", "--channels-last"},
                     {"--device", "fake:0"});
  expect_same_as_cpu({"--model", "cnn:width=4,hidden=16", "--deterministic"},
                     {"--device", "fake:0"});
  expect_same_as_cpu({"--model",
                      "cnn:width=4,hidden=16",
                      "--channels-last",
                      "--devices",
                      "2",
                      "--strategy",
                      "zero2"},
                     {"--device", "fake"});
}

TEST(DeviceCommand, GoesOnFromCpuToDeviceAndBackAsIfUnbroken) {
  const test::Folder folder;
  const fs::path whole = folder.path() / "whole", parts = folder.path() / "parts";
  ASSERT_EQ(device_run(small(whole)).code, 0);
  ASSERT_EQ(device_run(small(parts, {"--max-steps", "7"})).code, 0);
  const DeviceRun there =
      device_run({"train", "--resume", parts, "--max-steps", "21", "--device", "fake:1"});
  ASSERT_EQ(there.code, 0) << there.err;
  EXPECT_THAT(there.err, HasSubstr("the checkpoint is of a run on cpu, and this one is on fake"));
  const DeviceRun back = device_run({"train", "--resume", parts, "--max-steps", "0"});
  ASSERT_EQ(back.code, 0) << back.err;
  EXPECT_THAT(back.err, HasSubstr("the checkpoint is of a run on fake, and this one is on cpu"));
  EXPECT_EQ(saved_bits(parts), saved_bits(whole));
}

TEST(DeviceCommand, ABrokenRunWithDropoutGoesOnOnItsDevice) {
  const test::Folder folder;
  const fs::path whole = folder.path() / "whole", parts = folder.path() / "parts";
  const Words flags{"--model",
                    "transformer:width=16,heads=2,layers=1,feedforward=32,dropout=0.2",
                    "--device",
                    "fake:0"};
  ASSERT_EQ(device_run(small(whole, flags)).code, 0);
  ASSERT_EQ(device_run(small(parts, test::joined(flags, {"--max-steps", "7"}))).code, 0);
  ASSERT_EQ(device_run({"train", "--resume", parts, "--max-steps", "0", "--device", "fake:0"}).code,
            0);
  EXPECT_EQ(saved_bits(parts), saved_bits(whole));
}

TEST(DeviceCommand, IsEvaluatedAndAskedAnywhere) {
  const test::Folder folder;
  const fs::path run = folder.path() / "a";
  ASSERT_EQ(device_run(small(run, {"--device", "fake:0"})).code, 0);
  const DeviceRun cpu = device_run({"evaluate", run, "--json"});
  const DeviceRun there = device_run({"evaluate", run, "--json", "--device", "fake:1"});
  ASSERT_EQ(there.code, 0) << there.err;
  EXPECT_EQ(there.out, cpu.out);
  const fs::path ours = folder.path() / "cpu.csv", theirs = folder.path() / "fake.csv";
  ASSERT_EQ(device_run({"predict", run, "--output", ours, "--probabilities"}).code, 0);
  const DeviceRun asked =
      device_run({"predict", run, "--output", theirs, "--probabilities", "--device", "fake:1"});
  ASSERT_EQ(asked.code, 0) << asked.err;
  EXPECT_EQ(read_file(theirs), read_file(ours));
}

TEST(DeviceCommand, RefusesWhatIsNotThere) {
  const struct {
    Words words;
    int code;
    std::string says;
  } cases[] = {
      {{"--device", "fak:0"}, 2, "--device: auto, cpu, cuda or cuda:N, fake or fake:N (got fak:0)"},
      {{"--device", "fake:x"}, 2, "(got fake:x)\nhint: devices are numbered from 0"},
      {{"--device", "cpu:1"}, 2, "(got cpu:1)\nhint: cpu has no number"},
      {{"--device", "fake:2"}, 2, "device fake:2: there are fake:0 to fake:1"},
      {{"--device", "fake", "--devices", "0,2"}, 2, "device fake:2: there are fake:0 to fake:1"},
      {{"--device", "fake", "--devices", "4"},
       2,
       "--device fake: each rank of a machine has a device of its own (got 4 ranks, 2 devices)"},
      {{"--device", "fake:0", "--devices", "0,1"}, 2, "the devices are named once"},
      {{"--devices", "0,1"}, 2, "numbers are those of devices, and the ranks are on the CPU"},
      {{"--devices", "two"}, 2, "--devices: how many, as in 2, or which, as in 0,1 (got two)"},
      {{"--device", "fake:0", "--strategy", "single", "--devices", "2"},
       2,
       "--devices 2: it is for strategies with more than one rank"},
  };
  const test::Folder folder;
  for (const auto& bad : cases) {
    const DeviceRun refused = device_run(
        test::train_uneven(test::joined({"--output", folder.path() / "none"}, bad.words)),
        {"MUSTER_FAKE_DEVICES=2"});
    EXPECT_EQ(refused.code, bad.code) << join(bad.words, " ");
    EXPECT_THAT(refused.err, HasSubstr(bad.says));
    EXPECT_FALSE(fs::exists(folder.path() / "none" / "config.json"));
  }
}

TEST(DeviceCommand, ADeviceThatIsTooSmallEndsTheRunWithWhatItLacks) {
  const test::Folder folder;
  const DeviceRun start =
      device_run(small(folder.path() / "a", {"--device", "fake:0"}), {"MUSTER_FAKE_BYTES=2048"});
  EXPECT_EQ(start.code, 1);
  EXPECT_THAT(start.err, HasSubstr("fake:0 is out of memory at the start: Tried to allocate "));
  EXPECT_THAT(start.err, HasSubstr("total capacity of 2.0 KiB of which "));
  EXPECT_THAT(start.err, HasSubstr("hint: no batch size helps; take a smaller model"));
  const DeviceRun step =
      device_run(small(folder.path() / "b", {"--device", "fake:0"}), {"MUSTER_FAKE_BYTES=20000"});
  EXPECT_EQ(step.code, 1);
  EXPECT_THAT(step.err, HasSubstr("fake:0 is out of memory in the first step: "));
}

TEST(DeviceCommand, AnEvaluationThatIsTooLargeSaysWhichBatchIsIts) {
  const test::Folder folder;
  const std::vector<std::string> memory{"MUSTER_FAKE_BYTES=600000"};
  const Words model{"--model", "mlp:hidden=512,layers=1", "--optimizer", "sgd:momentum=0"};
  const Words data{"--data",
                   "synthetic:samples=220,test_samples=600,size=8,classes=4",
                   "--batch-size",
                   "12",
                   "--workers",
                   "0",
                   "--epochs",
                   "1",
                   "--device",
                   "fake:0"};
  const Words words = test::joined({"train"}, test::joined(model, data));
  const DeviceRun large =
      device_run(test::joined(words, {"--output", folder.path() / "a"}), memory);
  EXPECT_EQ(large.code, 1);
  EXPECT_THAT(large.err,
              HasSubstr("fake:0 is out of memory in the test after step 17: Tried to allocate "));
  EXPECT_THAT(
      large.err,
      HasSubstr("\nhint: take a smaller --eval-batch-size: the run is trained and saved, and "
                "--resume makes the test alone"));
  const DeviceRun small = device_run(
      test::joined(words, {"--output", folder.path() / "b", "--eval-batch-size", "32"}), memory);
  EXPECT_EQ(small.code, 0) << small.err;
  const DeviceRun none = device_run(test::joined(words, {"--eval-batch-size", "0"}), memory);
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("--eval-batch-size: at least 1 (got 0)"));
  // Who resumes the first with a smaller one loses nothing.
  const DeviceRun again =
      device_run({"train", "--resume", folder.path() / "a", "--eval-batch-size", "32"}, memory);
  EXPECT_EQ(again.code, 0) << again.err;
}

// Of 1.6 MB of weights, and as much of gradients, no device ever holds more than the cap: not at the
// start, nor where a cut is measured, weights are looked at and saved, a run goes on, or its best
// weights are tested. Seven units of a pipeline's stage take 0.93 MB; a stage has no more, whatever
// a cut's times are. fsdp has 0.8 MB in shards, and up to six units of 0.07 on their way.
TEST(DeviceCommand, AModelWhoseWeightsNoDeviceHoldsTrainsOnSeveral) {
  const test::Folder folder;
  const auto devices_of = [](int64_t bytes) {
    return std::vector<std::string>{"MUSTER_FAKE_DEVICES=4", concat("MUSTER_FAKE_BYTES=", bytes)};
  };
  const Words model{"--model",
                    "mlp:hidden=128,layers=24",
                    "--optimizer",
                    "sgd:momentum=0",
                    "--test-weights",
                    "best",
                    "--limit-train-batches",
                    "3",
                    "--limit-val-batches",
                    "1"};
  const auto on = [&](const char* name, const Words& more) {
    return test::joined(small(folder.path() / name, model), more);
  };
  const DeviceRun one = device_run(on("one", {"--device", "fake:0"}), devices_of(1'500'000));
  EXPECT_EQ(one.code, 1);
  EXPECT_THAT(one.err, HasSubstr("fake:0 is out of memory at the start"));
  EXPECT_THAT(one.err, HasSubstr("smaller model, --strategy fsdp or pipeline on several devices"))
      << "as below";
  const DeviceRun cpu = device_run(on("cpu", {"--strategy", "single"}));
  ASSERT_EQ(cpu.code, 0) << cpu.err;
  const struct {
    const char* name;
    const char* strategy;
    int64_t bytes;  // of a device
  } cases[] = {{"fsdp", "fsdp", 1'400'000},
               {"auto", "pipeline:micro_batches=2", 1'060'000},
               {"split", "pipeline:micro_batches=2,split=0/7/14/21", 1'060'000}};
  for (const auto& [name, strategy, bytes] : cases) {
    SCOPED_TRACE(strategy);
    const std::vector<std::string> environment = devices_of(bytes);
    const Words place{"--strategy", strategy, "--device", "fake", "--devices", "4"};
    const DeviceRun run = device_run(on(name, place), environment);
    ASSERT_EQ(run.code, 0) << run.err;
    const DeviceRun more = device_run(
        test::joined({"train", "--resume", folder.path() / name, "--epochs", "3"}, place),
        environment);
    EXPECT_EQ(more.code, 0) << more.err;
  }
  const DeviceRun none = device_run(
      on("none", {"--strategy", "pipeline:micro_batches=2", "--device", "fake", "--devices", "4"}),
      devices_of(700'000));
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err,
              ContainsRegex("no cut fits into the memory that is free, less a twentieth: this one "
                            "wants least, (37|38|39) % more; --activation-checkpointing blocks may "
                            "keep less\n"));
  EXPECT_THAT(none.err,
              ContainsRegex("muster: error: rank [0-9]: out of memory in the first step, "
                            "[a-z]+ of stage [0-9], micro-batch [01] "));
  EXPECT_THAT(none.err,
              HasSubstr("\nhint: no batch size helps; take a smaller model, more stages on more "
                        "devices, or a device with more memory\n"))
      << "weights and gradients of a stage are more than there is";
  // A measured unit needs its weights and their gradients.
  const DeviceRun one_unit = device_run(
      on("unit", {"--strategy", "pipeline:micro_batches=2", "--device", "fake", "--devices", "4"}),
      devices_of(100'000));
  EXPECT_EQ(one_unit.code, 1);
  EXPECT_THAT(one_unit.err,
              ContainsRegex("error: rank 0: out of memory at the start, measurement 0 .fake:0.: "
                            "block fc[12]: Tried to allocate "));
  EXPECT_THAT(one_unit.err,
              HasSubstr("\nhint: it is a unit that is measured to find out where to cut: take a "
                        "smaller model or a device with more memory\n"));
}

TEST(DeviceCommand, RanksThatShareADeviceSaySo) {
  const test::Folder folder;
  const DeviceRun run =
      device_run(small(folder.path() / "a", {"--devices", "2", "--device", "fake:0"}));
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("2 ranks of this machine share fake:0: they take turns"));
}

TEST(DeviceCommand, ExplainSaysWhereAndWhy) {
  const DeviceRun cpu = device_run(test::train_uneven({"--explain", "--device", "cpu"}));
  EXPECT_THAT(cpu.out, HasSubstr("\ndevice        cpu\n"));
  const DeviceRun fake =
      device_run(test::train_uneven({"--explain", "--device", "fake", "--devices", "3,1"}));
  EXPECT_THAT(fake.out, HasSubstr("\ndevice        fake:3, fake:1\n"));
}

}  // namespace
}  // namespace muster
