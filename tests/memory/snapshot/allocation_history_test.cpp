// Snapshot files: read back with LibTorch's unpickler. What Python's viewer makes of them:
// tests/parity/test_memory_snapshot.py.
#include "muster/memory/snapshot/allocation_history.h"

#include <algorithm>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/memory/allocator/scope.h"
#include "muster/memory/snapshot/pickle_writer.h"
#include "muster/memory/tracker/tracker.h"

#include "tests/memory/snapshot/unpickle.h"
#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::memory {
namespace {

using test::field;
using test::items;
using test::unpickled;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::string pickled(const std::function<void(PickleWriter&)>& fill) {
  std::string bytes;
  PickleWriter writer([&bytes](std::string_view part) { bytes += part; });
  fill(writer);
  writer.end();
  return bytes;
}

TEST(PickleWriter, NumbersOfEverySizeComeBack) {
  const std::vector<int64_t> numbers{0,
                                     -1,
                                     127,
                                     128,
                                     -2147483648LL,
                                     2147483647,
                                     2147483648LL,
                                     -2147483649LL,
                                     140737488355328,
                                     std::numeric_limits<int64_t>::max(),
                                     std::numeric_limits<int64_t>::min()};
  const c10::IValue list = unpickled(pickled([&](PickleWriter& writer) {
    writer.begin_list();
    for (const int64_t number : numbers) writer.number(number);
    writer.end_list();
  }));
  std::vector<int64_t> back;
  for (const c10::IValue& item : items(list)) back.push_back(item.toInt());
  EXPECT_EQ(back, numbers);
}

TEST(PickleWriter, ListsOfAnyLengthComeBackInOrder) {
  for (const int64_t length : {0, 1, 999, 1000, 1001, 2000, 70'000}) {
    const c10::IValue list = unpickled(pickled([&](PickleWriter& writer) {
      writer.begin_list();
      for (int64_t i = 0; i < length; ++i) writer.number(i);
      writer.end_list();
    }));
    const auto back = items(list);
    ASSERT_EQ(static_cast<int64_t>(back.size()), length);
    for (int64_t i = 0; i < length; ++i) ASSERT_EQ(back[static_cast<size_t>(i)].toInt(), i);
  }
}

TEST(PickleWriter, ListsAndDictsNestAndWhatIsSaidAgainIsTheSameObject) {
  const c10::IValue whole = unpickled(pickled([](PickleWriter& writer) {
    writer.begin_dict();
    writer.entry("caf\u00e9", "a \"text\"\n");
    writer.key("lists");
    writer.begin_list();
    writer.begin_list();
    writer.text("caf\u00e9");
    writer.end_list();
    const uint32_t inner = writer.remember();
    writer.again(inner);
    writer.begin_dict();
    writer.end_dict();
    writer.end_list();
    writer.entry("behind", 7);
    writer.end_dict();
  }));
  EXPECT_EQ(field(whole, "caf\u00e9").toStringRef(), "a \"text\"\n");
  EXPECT_EQ(field(whole, "behind").toInt(), 7);
  const auto lists = items(field(whole, "lists"));
  ASSERT_EQ(lists.size(), 3U);
  EXPECT_EQ(items(lists[0])[0].toStringRef(), "caf\u00e9");
  EXPECT_TRUE(lists[0].is(lists[1]));
  EXPECT_TRUE(lists[2].isGenericDict());
}

/// What a file holds.
struct Read {
  int64_t blocks = 0, bytes = 0;
  std::vector<c10::IValue> events;

  explicit Read(const std::filesystem::path& path) {
    const c10::IValue whole = unpickled(read_file(path));
    for (const c10::IValue& segment : items(field(whole, "segments"))) {
      for (const c10::IValue& block : items(field(segment, "blocks"))) {
        ++blocks;
        bytes += field(block, "requested_size").toInt();
      }
    }
    events = items(items(field(whole, "device_traces")).at(0));
  }

  /// Actions of events of so many bytes, in order.
  std::vector<std::string> actions_of(int64_t size) const {
    std::vector<std::string> actions;
    for (const c10::IValue& event : events) {
      if (field(event, "size").toInt() == size)
        actions.push_back(field(event, "action").toStringRef());
    }
    return actions;
  }
  c10::IValue first_of(int64_t size) const {
    return *std::ranges::find_if(
        events, [size](const c10::IValue& event) { return field(event, "size").toInt() == size; });
  }
};

std::vector<std::string> frames_of(const c10::IValue& event) {
  std::vector<std::string> frames;
  for (const c10::IValue& frame : items(field(event, "frames")))
    frames.push_back(field(frame, "filename").toStringRef() + " " +
                     field(frame, "name").toStringRef());
  return frames;
}

at::Tensor some_bytes(int64_t bytes) { return torch::empty({bytes}, torch::kByte); }

TEST(AllocationHistory, ItsFileHasWhatLivesAndWhatHappened) {
  const test::Folder folder;
  const AllocationHistory history;
  at::Tensor kept, gone;
  {
    const Scope outer("encoder"), inner("mask");
    kept = some_bytes(123'457);
    gone = some_bytes(54'321);
  }
  gone = at::Tensor();
  const SnapshotFile written = history.write(folder.path() / "memory.pickle");
  const Read read(folder.path() / "memory.pickle");
  EXPECT_EQ(read.blocks, written.blocks);
  EXPECT_EQ(read.bytes, written.bytes);
  EXPECT_EQ(written.blocks, static_cast<int64_t>(live_blocks().size()));
  EXPECT_EQ(written.forgotten, 0);
  EXPECT_THAT(read.actions_of(123'457), ElementsAre("segment_alloc", "alloc"));
  EXPECT_THAT(
      read.actions_of(54'321),
      ElementsAre("segment_alloc", "alloc", "free_requested", "free_completed", "segment_free"));
  EXPECT_THAT(frames_of(read.first_of(54'321)),
              ElementsAre("operator aten::empty", "scope mask", "scope encoder"));
  EXPECT_EQ(field(read.events.back(), "action").toStringRef(), "snapshot");
  EXPECT_EQ(field(read.events.back(), "category").toStringRef(), "unknown");
}

TEST(AllocationHistory, EventsReplayToTheLiveBytesThatItSays) {
  const test::Folder folder;
  const int64_t before = cpu_counters().current;
  const AllocationHistory history;
  torch::manual_seed(1);
  torch::nn::Linear layer(64, 64);
  for (int i = 0; i < 3; ++i) layer->forward(torch::randn({32, 64})).square().sum().backward();
  history.write(folder.path() / "memory.pickle");
  const Read read(folder.path() / "memory.pickle");
  std::map<int64_t, int64_t> live;  // by address
  int64_t replayed = 0;
  for (const c10::IValue& event : read.events) {
    const std::string action = field(event, "action").toStringRef();
    if (action != "alloc" && action != "free_completed") continue;
    const int64_t address = field(event, "addr").toInt(), size = field(event, "size").toInt();
    if (action == "alloc") {
      EXPECT_TRUE(live.emplace(address, size).second) << "twice at one address";
      replayed += size;
    } else {
      EXPECT_EQ(live[address], size);
      live.erase(address);
      replayed -= size;
    }
  }
  EXPECT_EQ(replayed, cpu_counters().current - before);
}

TEST(AllocationHistory, OwnersAreItsCategories) {
  const test::Folder folder;
  const AllocationHistory history;
  const at::Tensor weight = torch::ones({1003}, torch::requires_grad());
  (weight * 2).sum().backward();
  history.write(folder.path() / "memory.pickle");
  std::set<std::string> categories;
  for (const c10::IValue& event : Read(folder.path() / "memory.pickle").events) {
    if (field(event, "size").toInt() == 1003 * 4)
      categories.insert(field(event, "category").toStringRef());
  }
  EXPECT_THAT(categories, UnorderedElementsAre("unknown", "activation", "gradient"));
}

TEST(AllocationHistory, ARefusalIsAnEventAtItsPlace) {
  const test::Folder folder;
  const AllocationHistory history;
  const int64_t live = cpu_counters().current;
  set_cpu_capacity(live + 1000);
  EXPECT_THROW(some_bytes(4001), c10::OutOfMemoryError);
  set_cpu_capacity(0);
  const at::Tensor after = some_bytes(4003);
  history.write(folder.path() / "memory.pickle");
  const Read read(folder.path() / "memory.pickle");
  EXPECT_THAT(read.actions_of(4001), ElementsAre("oom"));
  EXPECT_EQ(field(read.first_of(4001), "device_free").toInt(), 1000);
  EXPECT_THAT(read.actions_of(4003), ElementsAre("segment_alloc", "alloc"));
}

TEST(AllocationHistory, TheRingKeepsTheLastEventsAndCountsTheOthers) {
  const test::Folder folder;
  const AllocationHistory history({.events = 10});
  for (int i = 0; i < 50; ++i) some_bytes(100'000 + i);
  const SnapshotFile written = history.write(folder.path() / "memory.pickle");
  EXPECT_EQ(written.events, 10);
  EXPECT_GE(written.forgotten, 90);
  const Read read(folder.path() / "memory.pickle");
  EXPECT_THAT(read.actions_of(100'044), IsEmpty());
  EXPECT_EQ(read.actions_of(100'045).size(), 5U);
}

TEST(AllocationHistory, ThreadsMayAllocateWhileItWrites) {
  const test::Folder folder;
  const AllocationHistory history({.events = 1000});
  std::atomic<bool> ends{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&ends] {
      while (!ends) some_bytes(1000);
    });
  }
  for (int i = 0; i < 20; ++i) {
    history.write(folder.path() / "memory.pickle");
    const Read read(folder.path() / "memory.pickle");
    EXPECT_GT(read.events.size(), 0U);
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(AllocationHistory, IsOneAtATimeOfAtLeastTagsAndSomeEvents) {
  const auto kind_of = [](const HistoryOptions& options) {
    return test::muster_error_of([&] { const AllocationHistory history(options); }).kind();
  };
  EXPECT_EQ(kind_of({.level = Level::kCounters}), ErrorKind::kUsage);
  EXPECT_EQ(kind_of({.events = 0}), ErrorKind::kUsage);
  const AllocationHistory one;
  EXPECT_EQ(kind_of({}), ErrorKind::kUsage);
  EXPECT_EQ(test::muster_error_of([&] { one.write("/nowhere/at/all.pickle"); }).kind(),
            ErrorKind::kEnvironment);
}

}  // namespace
}  // namespace muster::memory
