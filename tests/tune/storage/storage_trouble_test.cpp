// What must not hurt a study: death of its tuner, a full disk, others that lock, alter or remove
// its file.
#include <csignal>
#include <fstream>
#include <functional>

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/base/file.h"
#include "muster/base/text.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/short_files.h"
#include "tests/tune/written_study.h"

namespace muster::tune {
namespace {

using test::EventMaker;
using test::rows_of;
using test::ShortFiles;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class StorageTrouble : public testing::Test {
 protected:
  std::unique_ptr<Storage> open(double patience_s = 10) {
    return open_storage(
        file(), space_, test::description_of(space_), {.lock_patience_s = patience_s});
  }
  /// Every append counts as one of a busy study.
  std::unique_ptr<Storage> open_busy() {
    return open_storage(file(), space_, test::description_of(space_), {.busy_below_s = 1e4});
  }
  std::filesystem::path file() const { return folder_.path() / "fashion.db"; }

  test::Folder folder_;
  Space space_ = test::small_space();
};

/// Batches of four trials, a byte to `acknowledge` after each.
void append_for_ever(
    Storage& storage, const Space& space, int64_t first, int64_t next_id, int acknowledge) {
  EventMaker make(space, next_id);
  for (int64_t trial = first;; trial += 4) {
    std::vector<std::vector<Event>> batches(8);
    for (int64_t i = trial; i < trial + 4; ++i) {
      batches[0].push_back(make.added(i));
      batches[0].push_back(make.started(i));
    }
    for (int64_t t = 1; t < 7; ++t) {
      for (int64_t i = trial; i < trial + 4; ++i)
        batches[size_t(t)].push_back(make.reported(i, t, {{"loss", double(t)}}));
    }
    for (int64_t i = trial; i < trial + 4; ++i)
      batches[7].push_back(make.ended(i, TrialState::kComplete));
    for (const auto& batch : batches) {
      storage.append(batch);
      write_all(acknowledge, "x", "pipe");
    }
  }
}

/// A process that appends; killed when it has been answered `answers` times. How many of its
/// batches it was told to be stored.
int64_t append_and_die(const std::function<void(int)>& append, int64_t answers) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      append(ends[1]);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(1);
  }
  ::close(ends[1]);
  int64_t heard = 0;
  char byte;
  while (heard < answers && ::read(ends[0], &byte, 1) == 1) ++heard;
  ::kill(child, SIGKILL);
  while (::read(ends[0], &byte, 1) == 1) ++heard;  // answered before it died
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";
  return heard;
}

TEST_F(StorageTrouble, AKilledWriterLosesNothingThatWasAnsweredAndLeavesNoHalfBatch) {
  int64_t events = 0;
  for (const int64_t answers : {1, 2, 5, 7, 8, 9, 16, 40, 100, 33}) {
    const int64_t trials = events == 0 ? 0 : int64_t(open()->events().back().trial + 1);
    const int64_t heard = append_and_die(
        [&](int fd) { append_for_ever(*open(), space_, trials, events + 1, fd); }, answers);
    const auto stored = open()->events();
    for (size_t i = 0; i < stored.size(); ++i) ASSERT_EQ(stored[i].id, int64_t(i) + 1);
    const auto kept = int64_t(stored.size()) - events;
    const auto events_of = [](int64_t batches) {
      return batches / 8 * 36 + (batches % 8 > 0) * 4 + batches % 8 * 4;
    };
    EXPECT_GE(kept, events_of(heard));
    EXPECT_LE(kept, events_of(heard + 1));  // one more may be stored and its answer lost
    events = int64_t(stored.size());
    // Log and Optuna's tables say the same.
    const auto count = [&](const std::string& sql) { return rows_of(file(), sql, 1)[0]; };
    EXPECT_EQ(count("SELECT count(*) FROM trial_intermediate_values"),
              count("SELECT count(*) FROM muster_events WHERE kind = 'reported'"));
    EXPECT_EQ(count("SELECT count(*) FROM trial_values"),
              count("SELECT count(*) FROM muster_events WHERE kind = 'attempt_ended'"));
    EXPECT_EQ(count("SELECT count(*) FROM trials"),
              count("SELECT count(*) FROM muster_events WHERE kind = 'trial_added'"));
    EXPECT_EQ(count("PRAGMA integrity_check"), "ok");
  }
}

TEST_F(StorageTrouble, ABusyStudyPutsOffOptunasRowsAndWhoeverOpensItNextHasThemAll) {
  constexpr int64_t kReports = 200;
  const auto points = [&] {
    return rows_of(file(), "SELECT count(*) FROM trial_intermediate_values", 1)[0];
  };
  const auto report = [&](Storage& storage, EventMaker& make, int64_t from, int64_t to) {
    for (int64_t t = from; t <= to; ++t)
      storage.append(std::vector{make.reported(0, t, {{"loss", 1.0 / double(t)}})});
  };
  const int64_t heard = append_and_die(
      [&](int fd) {
        const auto storage = open_busy();
        EventMaker make(space_);
        storage->append(std::vector{make.added(0), make.started(0)});
        report(*storage, make, 1, kReports);
        write_all(fd, "x", "pipe");
        ::pause();
      },
      1);
  ASSERT_EQ(heard, 1);
  EXPECT_EQ(rows_of(file(), "SELECT count(*) FROM muster_events WHERE kind = 'reported'", 1)[0],
            std::to_string(kReports));  // what was answered is there
  EXPECT_EQ(points(), "136");           // 6 at once, then 64 with the 65th behind them, twice
  {
    const auto storage = open_busy();
    EXPECT_EQ(points(), std::to_string(kReports));
    EventMaker make(space_, kReports + 3);
    report(*storage, make, kReports + 1, kReports + 20);
    storage->append(std::vector{make.ended(0, TrialState::kComplete)});  // never past another kind
    EXPECT_EQ(points(), std::to_string(kReports + 20));
  }
  EXPECT_EQ(rows_of(file(), "SELECT value FROM trial_values", 1)[0],
            rows_of(file(),
                    "SELECT intermediate_value FROM trial_intermediate_values "
                    "ORDER BY step DESC LIMIT 1",
                    1)[0]);
}

TEST_F(StorageTrouble, AFileThatAnotherProgramLocksIsAnEnvironmentErrorAndCanBeTriedAgain) {
  EventMaker make(space_);
  const auto storage = open(0.02);
  std::vector<Event> events;
  make.whole(0, 3, events);
  Database other(file(), Database::Access::kWrite);
  other.run("BEGIN IMMEDIATE");
  EXPECT_THAT(test::refusal_of([&] { storage->append(events); }, ErrorKind::kEnvironment),
              AllOf(HasSubstr("fashion.db: it is locked by another program"),
                    HasSubstr("0.02 s"),
                    HasSubstr("nothing is lost")));
  EXPECT_THAT(storage->events(), IsEmpty());
  other.run("COMMIT");
  storage->append(events);
  EXPECT_THAT(storage->events(), SizeIs(events.size()));
}

TEST_F(StorageTrouble, ReadersHoldNobodyUpAndSeeOneMoment) {
  EventMaker make(space_);
  const auto storage = open(0.02);
  std::vector<Event> events;
  make.whole(0, 3, events);
  storage->append(events);
  Database reader(file(), Database::Access::kRead);
  reader.run("BEGIN");
  ASSERT_THAT(rows_of(reader, "SELECT count(*) FROM muster_events", 1), ElementsAre("6"));
  events.clear();
  make.whole(1, 3, events);
  storage->append(events);
  EXPECT_THAT(rows_of(reader, "SELECT count(*) FROM muster_events", 1), ElementsAre("6"));
  EXPECT_THAT(read_events(file(), "fashion"), SizeIs(12));
}

/// What `read` returns in a process that may not write the files: as another user, if this is root.
int in_a_process_that_may_only_read(const std::filesystem::path& folder,
                                    const std::function<int()>& read,
                                    bool may_add_files = false) {
  namespace fs = std::filesystem;
  constexpr auto kRead = fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read;
  constexpr auto kEnter = fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
  for (const auto& entry : fs::directory_iterator(folder)) fs::permissions(entry.path(), kRead);
  fs::permissions(folder, may_add_files ? fs::perms::all : kRead | kEnter);
  const pid_t child = ::fork();
  if (child == 0) {
    int result = 99;
    try {
      if (::geteuid() != 0 || ::setuid(65534) == 0) result = read();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(result);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  fs::permissions(folder, fs::perms::owner_all);
  for (const auto& entry : fs::directory_iterator(folder))
    fs::permissions(entry.path(), fs::perms::owner_all);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(StorageTrouble, ReadingNeedsNoRightToWriteAlsoWhereATunerWasKilled) {
  EventMaker make(space_);
  std::vector<Event> events;
  make.whole(0, 3, events);
  const auto read = [&] { return int(read_events(file(), "fashion").size()); };
  open()->append(events);  // closed: all is in the database
  EXPECT_EQ(in_a_process_that_may_only_read(folder_.path(), read), 6);
  const int64_t heard = append_and_die(
      [&](int fd) {
        const auto storage = open();
        EventMaker more(space_, 7);
        std::vector<Event> next;
        more.whole(1, 3, next);
        storage->append(next);
        write_all(fd, "x", "pipe");
        ::pause();
      },
      1);
  ASSERT_EQ(heard, 1);
  ASSERT_GT(std::filesystem::file_size(file().string() + "-wal"), 0U);
  std::filesystem::remove(file().string() + "-shm");  // of no use to who comes next
  EXPECT_EQ(in_a_process_that_may_only_read(folder_.path(), read), 12);
  EXPECT_THAT(read_events(file(), "fashion"), SizeIs(12));
}

// In a folder that all may write: the next tuner could not write what a reader left there.
TEST_F(StorageTrouble, WhoMayOnlyReadLeavesNoFilesInTheOwnersWay) {
  open()->append(std::vector<Event>{});
  const auto read = [&] { return int(read_events(file(), "fashion").size()); };
  EXPECT_EQ(in_a_process_that_may_only_read(folder_.path(), read, true), 0);
  for (const char* beside : {"-shm", "-wal"})
    EXPECT_FALSE(std::filesystem::exists(file().string() + beside)) << beside;
}

TEST_F(StorageTrouble, AFolderThatCannotBeWrittenIsSaidWithWhatToDo) {
  const auto hints = [&] {
    const auto has_hint = [](auto act) {
      const std::string said = test::refusal_of(act, ErrorKind::kEnvironment);
      return said.find("writable; --storage FILE names another") != said.npos;
    };
    return int(has_hint([&] { TunerLock(file(), "fashion"); })) + int(has_hint([&] { open(); }));
  };
  EXPECT_EQ(in_a_process_that_may_only_read(folder_.path(), hints), 2);
  open()->append(std::vector<Event>{});
  EXPECT_EQ(in_a_process_that_may_only_read(folder_.path(), hints), 2);
}

TEST_F(StorageTrouble, AFullDiskStoresNothingHalfAndCanBeTriedAgain) {
  EventMaker make(space_);
  const auto storage = open();
  std::vector<Event> stored, batch;
  const auto wal = file().string() + "-wal";
  bool was_full = false;
  {
    const ShortFiles limit(std::filesystem::file_size(wal) + 300000);
    for (int64_t trial = 0; trial < 200 && !was_full; ++trial) {
      batch.clear();
      make.whole(trial, 8, batch);
      try {
        storage->append(batch);
        stored.insert(stored.end(), batch.begin(), batch.end());
      } catch (const Error& error) {
        was_full = true;
        EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
        EXPECT_THAT(error.what(),
                    AllOf(HasSubstr(concat("cannot write ", file().string())),
                          HasSubstr("free some space; what was stored before is intact")));
        EXPECT_THROW(storage->append(batch), Error);
      }
    }
  }
  ASSERT_TRUE(was_full);
  EXPECT_THAT(storage->events(), SizeIs(stored.size()));
  storage->append(batch);
  EXPECT_THAT(storage->events(), SizeIs(stored.size() + batch.size()));
  EXPECT_THAT(rows_of(file(), "PRAGMA integrity_check", 1), ElementsAre("ok"));
}

TEST_F(StorageTrouble, AFileThatIsRemovedOrReplacedIsNoticed) {
  EventMaker make(space_);
  const auto storage = open();
  const auto moved = folder_.path() / "moved.db";
  std::filesystem::rename(file(), moved);
  const auto append = [&] { storage->append(std::vector<Event>{make.added(0)}); };
  EXPECT_THAT(test::refusal_of(append, ErrorKind::kEnvironment), HasSubstr("removed or replaced"));
  std::ofstream(file()) << "";
  EXPECT_THAT(test::refusal_of(append, ErrorKind::kEnvironment), HasSubstr("removed or replaced"));
  std::filesystem::rename(moved, file());
  make = EventMaker(space_);
  EXPECT_NO_THROW(append());
}

TEST_F(StorageTrouble, AFolderThatIsNotThereIsAnEnvironmentError) {
  EXPECT_THAT(test::refusal_of(
                  [&] {
                    open_storage(
                        folder_.path() / "no" / "x.db", space_, test::description_of(space_));
                  },
                  ErrorKind::kEnvironment),
              HasSubstr("cannot open"));
  EXPECT_THAT(test::refusal_of([&] { studies_of(folder_.path()); }), HasSubstr("is a folder"));
}

TEST_F(StorageTrouble, ADamagedFileIsRefusedAndNeverACrash) {
  {
    EventMaker make(space_);
    std::vector<Event> events;
    for (int64_t trial = 0; trial < 20; ++trial) make.whole(trial, 10, events);
    open()->append(events);
  }
  const std::string whole = read_file(file());
  const auto damaged = folder_.path() / "damaged.db";
  int refused = 0;
  for (size_t page = 0; page * 4096 < whole.size(); ++page) {
    std::string bytes = whole;
    for (size_t i = 24; i < 400; ++i) bytes[page * 4096 + i] = char(i * 37 + page);
    write_file_atomic(damaged, bytes);
    const std::string text = test::error_of([&] {
      for (const StudySummary& study : studies_of(damaged)) {
        read_events(damaged, study.name);
        read_foreign_trials(damaged, study.name);
      }
    });
    refused += text != test::kNoError;
    EXPECT_THAT(text, testing::Not(HasSubstr("SQLite fails"))) << page;
  }
  EXPECT_GT(refused, 5);
}

TEST(TunerLock, OneTunerRunsAStudyAndTheOtherHearsWhichProcessItIs) {
  const test::Folder folder;
  const auto file = folder.path() / "a.db";
  int ready[2], end[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(end), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const TunerLock lock(file, "größe/x");
    write_all(ready[1], "x", "pipe");
    char byte;
    (void)!::read(end[0], &byte, 1);  // never comes
    ::_exit(0);
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const auto lock = [&] { TunerLock(file, "größe/x"); };
  EXPECT_THAT(test::refusal_of(lock),
              AllOf(HasSubstr("study \"größe/x\" is being run already"),
                    HasSubstr(concat("process ", child))));
  EXPECT_NO_THROW(TunerLock(file, "another"));
  EXPECT_EQ(running_tuner(file, "größe/x"), child);
  EXPECT_EQ(running_tuner(file, "another"), std::nullopt);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(running_tuner(file, "größe/x"), std::nullopt);
  EXPECT_NO_THROW(lock());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  for (const int fd : {ready[0], ready[1], end[0], end[1]}) ::close(fd);
}

TEST(TunerLock, InAFolderThatIsNotThereIsAnEnvironmentError) {
  const test::Folder folder;
  EXPECT_THAT(test::refusal_of([&] { TunerLock(folder.path() / "no" / "a.db", "s"); },
                               ErrorKind::kEnvironment),
              HasSubstr("make the folder of the storage first"));
}

TEST(TunerLock, KeepsOutASecondTunerOfTheSameProcessUnderAnyNameOfTheFile) {
  const test::Folder folder;
  const auto file = folder.path() / "a.db";
  const TunerLock lock(file, "s");
  EXPECT_THAT(test::refusal_of([&] { TunerLock(folder.path() / "." / "a.db", "s"); }),
              HasSubstr(concat("process ", ::getpid())));
  EXPECT_EQ(running_tuner(file, "s"), ::getpid());
}

}  // namespace
}  // namespace muster::tune
