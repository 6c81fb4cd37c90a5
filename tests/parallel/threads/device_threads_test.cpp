// Threads of replicas, their streams and timers, with a fake device.
#include "muster/parallel/threads/device_threads.h"

#include <array>
#include <mutex>

#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/parallel/replicas/replica_timer.h"
#include "muster/tensor/device/streams.h"

#include "tests/support/error_of.h"
#include "tests/support/fake_devices.h"

namespace muster {
namespace {

using parallel::DeviceThreads;
using parallel::ReplicaTimer;
using tensor::StreamMark;
using test::error_of;
using test::fake;
using test::FakeDevices;
using test::journal;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void no_failure(int, const std::string& why) { ADD_FAILURE() << why; }

TEST(DeviceThreads, EachTaskRunsWithItsDeviceAndAStreamOfItsOwn) {
  DeviceThreads threads({fake(2), fake(3)}, 1, "replica");
  std::array<c10::Device, 2> devices{fake(0), fake(0)};
  std::array<c10::StreamId, 2> streams{};
  threads.run(
      [&](int replica) {
        const FakeDevices guard;
        devices[replica] = guard.getDevice();
        streams[replica] = guard.getStream(devices[replica]).id();
      },
      &no_failure);
  EXPECT_THAT(devices, ElementsAre(fake(2), fake(3)));
  EXPECT_THAT(streams, ElementsAre(72, 73));
}

TEST(DeviceThreads, StreamsOfReplicasStartAfterTheCallersAndTheCallersGoOnAfterTheirs) {
  DeviceThreads threads({fake(1)}, 1, "replica");
  journal.take();
  threads.run([](int) { journal.add("task"); }, &no_failure);
  // The caller's stream is 0 and the replica's is 71, both on device 1.
  EXPECT_THAT(
      journal.take(),
      ElementsAre("record 0 on 1", "wait 71 on 1", "task", "record 71 on 1", "wait 0 on 1"));
}

TEST(DeviceThreads, AFailedTaskIsWaitedForAsWell) {
  DeviceThreads threads({fake(1)}, 1, "replica");
  journal.take();
  const auto fails = [](int) { throw usage_error({.refused = "this"}); };
  EXPECT_EQ(error_of([&] { threads.run(fails, [](int, const std::string&) {}); }),
            "replica 0 (privateuseone:1): this");
  EXPECT_THAT(journal.take(),
              ElementsAre("record 0 on 1", "wait 71 on 1", "record 71 on 1", "wait 0 on 1"));
}

TEST(DeviceThreads, TheFirstErrorInTimeIsTheOneThrown) {
  DeviceThreads threads({at::kCPU, at::kCPU, at::kCPU}, 1, "replica");
  std::mutex mutex;
  std::condition_variable released;
  bool free = false;
  const auto task = [&](int replica) {
    if (replica == 2) throw std::runtime_error("the cause");
    std::unique_lock lock(mutex);
    released.wait(lock, [&] { return free; });
    throw std::runtime_error("a consequence");
  };
  const auto release = [&](int, const std::string&) {
    const std::lock_guard lock(mutex);
    free = true;
    released.notify_all();
  };
  for (int turn = 0; turn < 50; ++turn) {
    free = false;
    EXPECT_EQ(error_of([&] { threads.run(task, release); }), "replica 2 (cpu): the cause");
  }
}

TEST(DeviceThreads, CallsOfSeveralThreadsTakeTurns) {
  DeviceThreads threads({at::kCPU, at::kCPU}, 1, "replica");
  int inside = 0;  // unguarded: ThreadSanitizer sees it if turns overlap
  std::array<int, 2> done{};
  const auto task = [&](int replica) {
    if (replica == 0) ++inside;
    ++done[static_cast<size_t>(replica)];
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      for (int turn = 0; turn < 100; ++turn) threads.run(task, &no_failure);
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(inside, 300);
  EXPECT_THAT(done, ElementsAre(300, 300));
}

TEST(DeviceThreads, GradModeIsTheCallersInEachTurn) {
  DeviceThreads threads({at::kCPU}, 1, "replica");
  bool on = true;
  const auto look = [&](int) { on = c10::GradMode::is_enabled(); };
  {
    const c10::NoGradGuard no_grad;
    threads.run(look, &no_failure);
    EXPECT_FALSE(on);
  }
  threads.run(look, &no_failure);
  EXPECT_TRUE(on);
}

TEST(StreamMark, MarksEachDeviceOnceAndLetsAllWaitForAll) {
  journal.take();
  const StreamMark mark = StreamMark::of_current({fake(0), at::kCPU, fake(1), fake(0)});
  EXPECT_THAT(journal.take(), ElementsAre("record 0 on 0", "record 0 on 1"));
  mark.wait_on_current();
  EXPECT_THAT(journal.take(),
              ElementsAre("wait 0 on 0", "wait 0 on 0", "wait 0 on 1", "wait 0 on 1"));
}

TEST(StreamMark, IsNothingOnTheCpu) {
  journal.take();
  StreamMark::of_current({at::kCPU, at::kCPU}).wait_on_current();
  EXPECT_THAT(journal.take(), IsEmpty());
}

TEST(ReplicaTimer, TimesADeviceByEventsWithoutStoppingItBetween) {
  ReplicaTimer timer(fake(1), {});
  EXPECT_FALSE(timer.seconds().has_value());
  FakeDevices::now_ms = 100;
  timer.start();
  EXPECT_FALSE(timer.seconds().has_value());
  FakeDevices::now_ms = 350;
  journal.take();
  timer.stop();
  EXPECT_THAT(journal.take(), ElementsAre("record 0 on 1"));
  EXPECT_DOUBLE_EQ(timer.seconds().value(), 0.25);
  EXPECT_THAT(journal.take(), ElementsAre("host waits"));
}

TEST(ReplicaTimer, TakesAClockInPlaceOfTheDevices) {
  double now = 3;
  ReplicaTimer timer(fake(1), [&] { return now; });
  timer.start();
  now = 3.5;
  timer.stop();
  EXPECT_DOUBLE_EQ(timer.seconds().value(), 0.5);
}

}  // namespace
}  // namespace muster
