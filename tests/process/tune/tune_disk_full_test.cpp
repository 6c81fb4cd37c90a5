// `muster tune` while its disk is full.
#include <filesystem>
#include <map>
#include <string>
#include <variant>

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>

#include "muster/base/file.h"
#include "muster/tune/storage/storage.h"
#include "muster/tune/trial/trial.h"

#include "tests/support/folder.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster::testing_process {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// Two trials at once, five in all, each with four reports, from the moment on in which `let_go`
/// lets them. `first` is what their shell does first.
fs::path write_study(const fs::path& folder,
                     const std::string& more,
                     const std::string& first = "") {
  write_file_atomic(folder / "study.toml",
                    "name = \"full\"\nmetric = \"loss\"\nmode = \"min\"\nnum_samples = 5\n"
                    "max_concurrent = 2\n" +
                        more + "command = [\"sh\", \"-c\", \"" + first +
                        "while ! [ -e go ]; do sleep 0.01; done; "
                        "for t in 1 2 3 4; do sleep 0.05; "
                        "'" +
                        test::program_path("muster") +
                        "' report step=$t loss={lr} || exit; done\"]\n"
                        "[space]\nlr = \"uniform(0, 1)\"\n[resources_per_trial]\ncpu = 0.001\n");
  return folder / "study.toml";
}

void let_go(const fs::path& folder) { write_file_atomic(folder / "go", ""); }

/// From now on no file that the tuner writes may grow (or may again). Its trials are children of
/// another process and keep their room.
void set_room(const Launched& tuner, bool full) {
  rlimit limit{};
  ASSERT_EQ(::prlimit(tuner.pid(), RLIMIT_FSIZE, nullptr, &limit), 0);
  limit.rlim_cur = full ? 1 : limit.rlim_max;
  ASSERT_EQ(::prlimit(tuner.pid(), RLIMIT_FSIZE, &limit, nullptr), 0);
}

/// Reports per trial that came to its end, steps rising by one.
std::map<int64_t, int64_t> complete_trials(const fs::path& storage) {
  std::map<int64_t, int64_t> steps, complete;
  for (const tune::Event& event : tune::read_events(storage, "full")) {
    if (const auto* reported = std::get_if<tune::Reported>(&event.what)) {
      EXPECT_EQ(reported->t, ++steps[event.trial]);
    } else if (const auto* ended = std::get_if<tune::AttemptEnded>(&event.what)) {
      if (ended->then == tune::TrialState::kComplete) complete[event.trial] = steps[event.trial];
    }
  }
  return complete;
}

const std::map<int64_t, int64_t> kAll = {{0, 4}, {1, 4}, {2, 4}, {3, 4}, {4, 4}};

class TunerOnAFullDisk : public ::testing::Test {
 protected:
  // A real full disk answers a write with an error; the limit answers with a signal as well.
  void SetUp() override { ::signal(SIGXFSZ, SIG_IGN); }  // inherited by the tuner
  void TearDown() override { ::signal(SIGXFSZ, SIG_DFL); }

  test::Folder folder_;
};

TEST_F(TunerOnAFullDisk, WaitsForRoomWithItsTrialsAndGoesOnWithoutALoss) {
  Launched tuner({"tune", write_study(folder_.path(), "").string()});
  ASSERT_TRUE(tuner.wait_for("trial 1 started")) << tuner.err();
  set_room(tuner, /*full=*/true);
  let_go(folder_.path());
  ASSERT_TRUE(tuner.wait_for("trials wait; trying again for 1m00s")) << tuner.err();
  set_room(tuner, /*full=*/false);
  EXPECT_EQ(tuner.wait().code, 0) << tuner.err();
  EXPECT_TRUE(tuner.nothing_left());
  EXPECT_EQ(complete_trials(folder_.path() / "full.db"), kAll);
}

TEST_F(TunerOnAFullDisk, EndsWithItsTrialsWhenItsPatienceDoesAndIsResumed) {
  const fs::path study = write_study(folder_.path(), "storage_patience = \"1s\"\n");
  {
    Launched tuner({"tune", study.string()});
    ASSERT_TRUE(tuner.wait_for("trial 1 started")) << tuner.err();
    set_room(tuner, /*full=*/true);
    let_go(folder_.path());
    EXPECT_EQ(tuner.wait().code, 1) << tuner.err();
    EXPECT_THAT(tuner.err(), HasSubstr("trials wait; trying again for 1.0s"));
    EXPECT_THAT(tuner.err(), HasSubstr("error: cannot write "));
    EXPECT_TRUE(tuner.nothing_left());
  }
  Launched tuner({"tune", study.string()});
  EXPECT_EQ(tuner.wait().code, 0) << tuner.err();
  EXPECT_EQ(complete_trials(folder_.path() / "full.db"), kAll);
}

TEST_F(TunerOnAFullDisk, InterruptedEndsAsInterruptedHoweverShortItsPatience) {
  // Trials take their time to end: patience, which is not over when the signal comes, is over before
  // they are.
  const fs::path study = write_study(folder_.path(),
                                     "storage_patience = \"5s\"\nstop_grace = \"20s\"\n",
                                     "trap '' TERM INT; trap 'sleep 8' EXIT; ");
  Launched tuner({"tune", study.string()});
  ASSERT_TRUE(tuner.wait_for("trial 1 started")) << tuner.err();
  set_room(tuner, /*full=*/true);
  let_go(folder_.path());
  ASSERT_TRUE(tuner.wait_for("trials wait; trying again")) << tuner.err();
  tuner.signal(SIGINT);
  EXPECT_EQ(tuner.wait(std::chrono::seconds(60)).code, 130) << tuner.err();
  EXPECT_THAT(tuner.err(), HasSubstr("nothing more can be stored"));
  EXPECT_TRUE(tuner.nothing_left());
}

}  // namespace
}  // namespace muster::testing_process
