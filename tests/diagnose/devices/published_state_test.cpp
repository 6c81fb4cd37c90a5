// Status files: written by one process, read by another, at any moment.
#include "muster/diagnose/devices/published_state.h"

#include <atomic>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/base/file.h"
#include "muster/base/text.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/variables.h"

namespace muster::diagnose {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

namespace fs = std::filesystem;

PublishedState small_state() {
  return {.program = "muster train",
          .doing = "epoch 2, step 311",
          .rank = 1,
          .world_size = 4,
          .devices = {{.device = "GPU-a",
                       .name = "cuda:0",
                       .allocated_bytes = 1 << 20,
                       .reserved_bytes = 2 << 20,
                       .peak_allocated_bytes = 3 << 20,
                       .peak_reserved_bytes = 4 << 20,
                       .retries = 5,
                       .out_of_memory = 6}}};
}

class StatusFiles : public ::testing::Test {
 protected:
  StatusFiles() {
    fs::create_directory(at());
    fs::permissions(at(), fs::perms::owner_all);
  }
  fs::path at() const { return folder_.path() / "status"; }
  void write(const std::string& name, const std::string& bytes) {
    write_file_atomic(at() / name, bytes);
  }

  test::Folder folder_;
};

TEST_F(StatusFiles, WhatAProcessPublishesIsReadWithItsOwner) {
  StatePublisher publisher(at());
  ASSERT_TRUE(publisher.is_open()) << publisher.why();
  ASSERT_TRUE(publisher.publish(small_state()));
  const PublishedFiles files = read_published(at());
  ASSERT_THAT(files.states, SizeIs(1));
  PublishedState expected = small_state();
  expected.process = this_process();
  expected.updated_unix_s = files.states[0].updated_unix_s;
  EXPECT_EQ(files.states[0], expected);
  EXPECT_GT(files.states[0].updated_unix_s, 1.6e9);
}

TEST_F(StatusFiles, AShorterStateLeavesNothingOfALongerOne) {
  StatePublisher publisher(at());
  PublishedState longer = small_state();
  longer.devices.resize(kMaxPublishedDevices + 9, longer.devices[0]);
  longer.program = std::string(5000, 'p');
  ASSERT_TRUE(publisher.publish(longer));
  ASSERT_THAT(read_published(at()).states, SizeIs(1));
  EXPECT_THAT(read_published(at()).states[0].devices, SizeIs(kMaxPublishedDevices));
  EXPECT_EQ(read_published(at()).states[0].program, std::string(kMaxPublishedText, 'p'));
  ASSERT_TRUE(publisher.publish(small_state()));
  ASSERT_THAT(read_published(at()).states, SizeIs(1));
  EXPECT_EQ(read_published(at()).states[0].devices, small_state().devices);
}

TEST_F(StatusFiles, GoWithTheirProcess) {
  {
    StatePublisher publisher(at());
    EXPECT_THAT(read_published(at()).states, SizeIs(1)) << "there before anything is published";
  }
  EXPECT_TRUE(fs::is_empty(at()));
}

TEST_F(StatusFiles, OfADeadProcessDoNotCountAndTheNextWriterRemovesThem) {
  const pid_t child = ::fork();
  if (child == 0) {
    new StatePublisher(at());  // nobody ends it
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  PublishedFiles files = read_published(at());
  EXPECT_THAT(files.states, IsEmpty());
  EXPECT_EQ(files.dead, 1);
  StatePublisher publisher(at());
  files = read_published(at());
  EXPECT_THAT(files.states, SizeIs(1));
  EXPECT_EQ(files.dead, 0);
}

TEST_F(StatusFiles, ALaterProcessOfTheSameNumberIsNotTakenForIt) {
  PublishedState state = small_state();
  state.process = this_process();
  state.process.started -= 1;
  write("1-1.status", published_text(state));
  EXPECT_THAT(read_published(at()).states, IsEmpty());
  EXPECT_EQ(read_published(at()).dead, 1);
}

TEST_F(StatusFiles, OfAnotherNamespaceAreCountedAndLeftAlone) {
  PublishedState state = small_state();
  state.process = this_process();
  state.process.host += "0";
  write("1-1.status", published_text(state));
  StatePublisher publisher(at());
  EXPECT_EQ(read_published(at()).elsewhere, 1);
  EXPECT_TRUE(fs::exists(at() / "1-1.status"));
}

TEST_F(StatusFiles, AForkedChildNeitherWritesNorRemovesItsParentsFile) {
  StatePublisher publisher(at());
  ASSERT_TRUE(publisher.publish(small_state()));
  const pid_t child = ::fork();
  if (child == 0) {
    const bool has_written = publisher.publish({});
    publisher.~StatePublisher();
    ::_exit(has_written ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_THAT(read_published(at()).states, SizeIs(1));
  EXPECT_EQ(read_published(at()).states[0].rank, 1);
}

TEST_F(StatusFiles, AReaderNeverSeesHalfOfAState) {
  StatePublisher publisher(at());
  std::atomic<bool> is_over = false;
  std::thread writer([&] {
    // All numbers of a state are one number, over states of any length.
    for (uint64_t i = 0; !is_over; ++i) {
      PublishedState state;
      state.devices.resize(i % 40, {.device = "cpu", .name = "cpu"});
      for (PublishedDevice& device : state.devices)
        device.allocated_bytes = device.reserved_bytes = device.retries = i;
      publisher.publish(state);
    }
  });
  for (int i = 0; i < 500; ++i) {
    const PublishedFiles files = read_published(at());
    EXPECT_EQ(files.dead, 0);
    for (const PublishedState& state : files.states) {
      for (const PublishedDevice& device : state.devices) {
        EXPECT_EQ(device.allocated_bytes, state.devices[0].allocated_bytes);
        EXPECT_EQ(device.retries, state.devices[0].allocated_bytes);
      }
      EXPECT_EQ(state.devices.empty() ? 0 : state.devices[0].retries % 40, state.devices.size());
    }
  }
  is_over = true;
  writer.join();
}

TEST_F(StatusFiles, WhatNoWriterWroteIsCountedAndNotShown) {
  const std::string good = published_text(small_state());
  std::string turned = good;
  turned[turned.find("1048576")] = '3';
  write("1-1.status", turned);
  write("2-2.status", good.substr(0, good.size() - 1));
  write("3-3.status", "");
  write("4-4.status", std::string(100000, 'x'));
  fs::create_directory(at() / "5-5.status");
  fs::create_symlink("/dev/zero", at() / "6-6.status");
  ASSERT_EQ(::mkfifo((at() / "7-7.status").c_str(), 0600), 0);
  write("notes.txt", "of somebody else");
  const PublishedFiles files = read_published(at());
  EXPECT_THAT(files.states, IsEmpty());
  EXPECT_EQ(files.unreadable, 7);
}

TEST_F(StatusFiles, AFolderThatOthersMayWriteCountsForNeitherSide) {
  fs::permissions(at(), fs::perms::all);
  EXPECT_THAT(read_published(at()).refused, HasSubstr("may be written by others"));
  StatePublisher publisher(at());
  EXPECT_FALSE(publisher.is_open());
  EXPECT_THAT(publisher.why(), HasSubstr("may be written by others"));
  EXPECT_FALSE(publisher.publish(small_state()));
  fs::create_directory_symlink(at(), folder_.path() / "link");
  EXPECT_FALSE(StatePublisher(folder_.path() / "link").is_open()) << "nor one behind a link";
}

TEST_F(StatusFiles, NoFolderIsNoError) {
  const PublishedFiles files = read_published(folder_.path() / "none");
  EXPECT_THAT(files.states, IsEmpty());
  EXPECT_EQ(files.refused, "");
  EXPECT_FALSE(fs::exists(folder_.path() / "none")) << "a reader makes nothing";
  StatePublisher publisher(folder_.path() / "none");
  EXPECT_TRUE(publisher.is_open()) << "a writer does, for its user alone";
  EXPECT_EQ(fs::status(folder_.path() / "none").permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(publisher.path()).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(StatusFiles, TheFolderIsTheUsersWhateverTheSession) {
  EXPECT_EQ(status_folder(test::lookup_in({})), fs::path(concat("/dev/shm/muster-", ::getuid())));
  EXPECT_EQ(status_folder(test::lookup_in({{"MUSTER_STATUS_DIR", "/a"}})), fs::path("/a"));
}

/// What a reader sees that falls into the middle of a write: JSON all the same, of numbers that never
/// were together.
TEST(PublishedText, AMixtureOfTwoStatesIsNone) {
  PublishedState one = small_state(), two = small_state();
  two.doing = "epoch 3, step 422";
  two.devices[0].allocated_bytes = two.devices[0].peak_reserved_bytes = 7 << 20;
  const std::string before = published_text(one), after = published_text(two);
  ASSERT_EQ(before.size(), after.size());
  int refused = 0;
  for (size_t cut = 0; cut <= before.size(); ++cut) {
    const std::string mixed = after.substr(0, cut) + before.substr(cut);
    if (mixed == before || mixed == after) {
      EXPECT_NO_THROW(parse_published(mixed, "x"));
    } else {
      EXPECT_THAT(test::refusal_of([&] { parse_published(mixed, "x"); }), HasSubstr("its sum"));
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(PublishedText, ReadsBackAndRefusesTheRest) {
  PublishedState state = small_state();
  state.doing = "\xff\xc3\xa9";
  const std::string text = published_text(state);
  EXPECT_EQ(parse_published(text + "left over", "x").doing, "\xEF\xBF\xBD\xc3\xa9");
  EXPECT_THAT(test::refusal_of([&] { parse_published("hello", "f"); }), HasSubstr("first line"));
  EXPECT_THAT(test::refusal_of([&] { parse_published(text.substr(0, 60), "f"); }),
              HasSubstr("cut off"));
  state.program = std::string(2 * kMaxPublishedText, 'a') + "\xc3\xa9";
  state.program[kMaxPublishedText - 1] = '\xc3';
  state.program[kMaxPublishedText] = '\xa9';
  EXPECT_EQ(parse_published(published_text(state), "x").program,
            std::string(kMaxPublishedText - 1, 'a'))
      << "no half of a letter";
}

}  // namespace
}  // namespace muster::diagnose
