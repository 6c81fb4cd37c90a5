// Who owns a run's folder, and what becomes of it when a run goes back or goes on elsewhere.
#include "muster/train/checkpoints/run_folder.h"

#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/host.h"
#include "muster/base/text.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/checkpoints/small_run.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::at;
using test::make_run;
using test::refusal_of;
using test::saved_state;
using test::weight;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using train::RunFolder;

TEST(RunFolder, HasOneOwnerWhomASecondProcessHearsOf) {
  const test::Folder place;
  const fs::path folder = place.path() / "run";
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    const RunFolder mine(folder);
    (void)!::write(ready[1], "x", 1);
    for (;;) ::pause();
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THAT(refusal_of([&] { RunFolder second(folder); }),
              AllOf(HasSubstr("the run in " + folder.string()),
                    HasSubstr(concat("process ", owner, " on host ", host_name())),
                    HasSubstr("--output")));
  ::kill(owner, SIGKILL);
  ::waitpid(owner, nullptr, 0);
  const RunFolder second(folder);
  EXPECT_TRUE(second.keeps_others_out());
  EXPECT_THAT(refusal_of([&] { RunFolder third(folder); }), HasSubstr("one process at a time"));
  for (const int fd : ready) ::close(fd);
}

TEST(RunFolder, ThatWasMadeInVainGoesAway) {
  const test::Folder place;
  { const RunFolder folder(place.path() / "a" / "b" / "c"); }
  EXPECT_TRUE(fs::is_empty(place.path()));
  {
    const RunFolder folder(place.path() / "a" / "b");
    write_file_atomic(folder.path() / "latest", "x");
  }
  EXPECT_TRUE(fs::exists(place.path() / "a" / "b" / "latest"));
}

TEST(RunFolder, FreshOnesDifferAlsoBetweenProcessesThatAskAtOnce) {
  constexpr int kProcesses = 8;
  const test::Folder place;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    const auto folder = RunFolder::make_fresh(place.path() / "runs" / "cnn");
    write_file_atomic(folder->path() / concat("by-", ::getpid()), "");
    ::_exit(0);
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(place.path() / "runs")) {
    names.insert(entry.path().filename());
    int owners = 0;
    for (const auto& file : fs::directory_iterator(entry))
      owners += file.path().filename().string().starts_with("by-");
    EXPECT_EQ(owners, 1) << entry;
  }
  EXPECT_EQ(names.size(), size_t{kProcesses});
  EXPECT_TRUE(names.contains("cnn") && names.contains("cnn-8"));
}

TEST(RunFolder, HoldsOneRun) {
  const test::Folder place;
  const fs::path exp = place.path() / "exp", ex = place.path() / "ex";
  make_run(exp);
  make_run(ex);
  RunFolder folder(ex);
  EXPECT_THAT(refusal_of([&] { folder.check(nullptr); }), HasSubstr("does not overwrite"));
  ::setenv("TORCHELASTIC_RESTART_COUNT", "1", 1);  // of a job that its launcher starts again
  EXPECT_THAT(refusal_of([&] { folder.check(nullptr); }), HasSubstr("says --resume auto"));
  ::unsetenv("TORCHELASTIC_RESTART_COUNT");
  const train::Checkpoint other = at(exp, 40), own = at(ex, 40);
  EXPECT_THAT(refusal_of([&] { folder.check(&other); }),
              AllOf(HasSubstr("does not overwrite"), HasSubstr("--resume " + ex.string())));
  EXPECT_NO_THROW(folder.check(&own));
  fs::create_directory_symlink(ex, place.path() / "link");
  const train::Checkpoint linked = at(place.path() / "link", 40);
  EXPECT_NO_THROW(folder.check(&linked));
  fs::remove_all(own.folder);
  EXPECT_THAT(refusal_of([&] { folder.check(&own); }), HasSubstr("it is not there any more"));
}

TEST(RunFolder, GoingOnFromLatestChangesNothing) {
  const test::Folder place;
  make_run(place.path());
  RunFolder folder(place.path());
  const train::Checkpoint from = at(place.path(), 40);
  EXPECT_THAT(folder.prepare(&from), IsEmpty());
  EXPECT_THAT(train::checkpoint_steps(place.path()), ElementsAre(40, 30, 20, 10));
  EXPECT_EQ(train::step_named_by(place.path() / "best"), 20);
  EXPECT_FALSE(fs::exists(place.path() / "abandoned"));
}

TEST(RunFolder, GoingBackMakesTheFutureARunOfItsOwn) {
  const test::Folder place;
  make_run(place.path());
  RunFolder folder(place.path());
  const train::Checkpoint from = at(place.path(), 10);
  const fs::path aside = place.path() / "abandoned" / "1";
  EXPECT_THAT(folder.prepare(&from),
              ElementsAre(AllOf(HasSubstr("step-20, step-30, step-40"),
                                HasSubstr("--resume " + aside.string()))));
  EXPECT_THAT(train::checkpoint_steps(place.path()), ElementsAre(10));
  EXPECT_EQ(train::step_named_by(place.path() / "latest"), 10);
  EXPECT_EQ(train::step_named_by(place.path() / "best"), 10);

  EXPECT_EQ(weight(train::load_checkpoint(aside)), 40);
  EXPECT_THAT(train::checkpoint_steps(aside), ElementsAre(40, 30, 20));
  EXPECT_EQ(train::step_named_by(aside / "best"), 20);
  EXPECT_EQ(read_file(aside / "metrics.jsonl"), "rows up to 40\n");
  EXPECT_EQ(read_file(aside / "tensorboard" / "events"), "points up to 40");

  // What is saved next is the newest and stays, however few are kept.
  train::write_checkpoint(place.path(), saved_state(13, 10));
  train::remove_old_checkpoints(place.path(), 1);
  EXPECT_THAT(train::checkpoint_steps(place.path()), ElementsAre(13, 10));

  // Once more, and each future has its place.
  EXPECT_THAT(folder.prepare(&from), ElementsAre(HasSubstr("abandoned/2")));
  EXPECT_EQ(weight(train::load_checkpoint(place.path() / "abandoned" / "2")), 13);
}

TEST(RunFolder, ABestEpochBeforeTheStepIsInBothRuns) {
  const test::Folder place;
  make_run(place.path());
  RunFolder folder(place.path());
  const train::Checkpoint from = at(place.path(), 30);
  folder.prepare(&from);
  const fs::path aside = place.path() / "abandoned" / "1";
  EXPECT_THAT(train::checkpoint_steps(aside), ElementsAre(40, 20));
  EXPECT_EQ(weight(at(aside, 20)), 20);
  EXPECT_EQ(train::step_named_by(aside / "best"), 20);
  EXPECT_EQ(train::step_named_by(place.path() / "best"), 20);
  EXPECT_EQ(weight(at(place.path(), 20)), 20);
}

TEST(RunFolder, TheBestEpochOfEachCheckpointThatIsSetAsideComesAlong) {
  const test::Folder place;
  for (const auto& [step, best] :
       std::map<int64_t, int64_t>{{10, 10}, {20, 20}, {30, 20}, {40, 40}, {50, 40}})
    train::write_checkpoint(place.path(), saved_state(step, best));
  RunFolder folder(place.path());
  const train::Checkpoint from = at(place.path(), 20);
  folder.prepare(&from);
  const fs::path aside = place.path() / "abandoned" / "1";
  EXPECT_THAT(train::checkpoint_steps(aside), ElementsAre(50, 40, 30, 20));
  EXPECT_EQ(weight(at(aside, 20)), 20);  // --resume step-30 --test-weights best
  EXPECT_THAT(train::checkpoint_steps(place.path()), ElementsAre(20, 10));
}

TEST(RunFolder, ABestEpochWhoseCheckpointIsGoneIsSaid) {
  const test::Folder place;
  make_run(place.path());
  fs::remove_all(train::checkpoint_folder(place.path(), 20));
  RunFolder folder(place.path());
  const train::Checkpoint from = at(place.path(), 30);
  EXPECT_THAT(folder.prepare(&from), ::testing::Contains(HasSubstr("step-20, is not there")));
  EXPECT_FALSE(fs::exists(place.path() / "best"));
}

TEST(RunFolder, GoingOnElsewhereTakesWhatLedThereAlong) {
  const test::Folder place;
  const fs::path source = place.path() / "a", branch = place.path() / "b";
  make_run(source);
  const train::Checkpoint from = at(source, 30);
  {
    RunFolder folder(branch);
    folder.check(&from);
    EXPECT_THAT(folder.prepare(&from), IsEmpty());
  }
  EXPECT_THAT(train::checkpoint_steps(branch), ElementsAre(30, 20));
  EXPECT_EQ(weight(train::load_checkpoint(branch)), 30);
  EXPECT_EQ(train::step_named_by(branch / "best"), 20);
  EXPECT_EQ(read_file(branch / "lr_find.svg"), "a plot\n");
  EXPECT_EQ(read_file(branch / "metrics.jsonl"), "rows up to 40\n");
  EXPECT_THAT(train::checkpoint_steps(source), ElementsAre(40, 30, 20, 10));
  // Removing it here leaves it there.
  fs::remove_all(branch);
  EXPECT_EQ(weight(at(source, 30)), 30);
}

TEST(RunFolder, ALoneCopyOfACheckpointBeginsARun) {
  const test::Folder place;
  make_run(place.path() / "a");
  fs::copy(train::checkpoint_folder(place.path() / "a", 30), place.path() / "mine");
  const train::Checkpoint from = train::read_checkpoint(place.path() / "mine");
  RunFolder folder(place.path() / "b");
  folder.check(&from);
  folder.prepare(&from);
  EXPECT_EQ(weight(train::load_checkpoint(place.path() / "b")), 30);
}

TEST(RunFolder, ACheckpointUnderAnotherNameIsTakenUnderItsOwn) {
  const test::Folder place;
  make_run(place.path());
  const fs::path kept = place.path() / "checkpoints" / "kept";
  fs::rename(train::checkpoint_folder(place.path(), 30), kept);
  const train::Checkpoint from = train::read_checkpoint(kept);
  RunFolder folder(place.path());
  folder.check(&from);
  folder.prepare(&from);
  EXPECT_EQ(weight(train::load_checkpoint(place.path())), 30);
  EXPECT_EQ(weight(train::read_checkpoint(kept)), 30);
  EXPECT_THAT(train::checkpoint_steps(place.path()), ElementsAre(30, 20, 10));
}

TEST(RunFolder, TheOwnerRemovesWhatKilledWritersLeft) {
  const test::Folder place;
  make_run(place.path());
  const fs::path checkpoints = place.path() / "checkpoints";
  fs::create_directory(checkpoints / ".unfinished-50-host-1");
  fs::rename(checkpoints / "step-40", checkpoints / ".replaced-step-40");
  write_file_atomic(place.path() / ".unfinished-latest-aBc123", "step-50");
  write_file_atomic(checkpoints / "step-30" / ".unfinished-state.json-aBc123", "{");
  RunFolder folder(place.path());
  folder.prepare(nullptr);  // whatever follows: tidying comes first
  EXPECT_FALSE(fs::exists(place.path() / ".unfinished-latest-aBc123"));
  EXPECT_FALSE(fs::exists(checkpoints / ".unfinished-50-host-1"));
  EXPECT_FALSE(
      fs::exists(place.path() / "abandoned/1/checkpoints/step-30/.unfinished-state.json-aBc123"));
  EXPECT_EQ(weight(train::read_checkpoint(place.path() / "abandoned/1/checkpoints/step-40")), 40);
}

}  // namespace
}  // namespace muster
