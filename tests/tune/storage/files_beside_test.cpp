// The write-ahead log and its index beside a study: who closes it last removes them.
#include <filesystem>

#include <gmock/gmock.h>

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/tune/written_study.h"

namespace muster::tune {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class FilesBeside : public testing::Test {
 protected:
  std::unique_ptr<Storage> open() {
    return open_storage(file(), space_, test::description_of(space_));
  }
  void append(Storage& storage, int64_t trial) {
    std::vector<Event> events;
    make_.whole(trial, 3, events);
    storage.append(events);
  }
  std::filesystem::path file() const { return folder_.path() / "fashion.db"; }
  int count() const {
    return int(std::filesystem::exists(file().string() + "-wal")) +
           int(std::filesystem::exists(file().string() + "-shm"));
  }

  test::Folder folder_;
  Space space_ = test::small_space();
  test::EventMaker make_{space_};
};

TEST_F(FilesBeside, AReaderLeavesNoneOfAStudyThatNobodyElseHasOpen) {
  append(*open(), 0);
  ASSERT_EQ(count(), 0);
  EXPECT_THAT(studies_of(file()), SizeIs(1));
  EXPECT_THAT(read_events(file(), "fashion"), SizeIs(6));
  EXPECT_EQ(count(), 0);
}

TEST_F(FilesBeside, AReaderLeavesThoseOfATunerAtWorkAndRemovesThemIfItIsTheLast) {
  auto tuner = open();
  append(*tuner, 0);
  EXPECT_THAT(read_events(file(), "fashion"), SizeIs(6));
  EXPECT_EQ(count(), 2);
  append(*tuner, 1);
  {
    const Database reader(file(), Database::Access::kRead);
    tuner.reset();
    EXPECT_EQ(count(), 2);
  }
  EXPECT_EQ(count(), 0);
  EXPECT_THAT(open()->events(), SizeIs(12));
}

TEST_F(FilesBeside, AReaderChangesNothingThatItMayWrite) {
  append(*open(), 0);
  Database reader(file(), Database::Access::kRead);
  EXPECT_THAT(
      test::refusal_of([&] { reader.run("DELETE FROM muster_events"); }, ErrorKind::kEnvironment),
      HasSubstr("cannot write"));
  EXPECT_THAT(read_events(file(), "fashion"), SizeIs(6));
}

}  // namespace
}  // namespace muster::tune
