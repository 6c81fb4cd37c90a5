// `muster tune` under SIGKILL: tuner, trials or both, at random instants of the study.
#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/tune/core/kept_checkpoints.h"
#include "muster/tune/core/study_core.h"
#include "muster/tune/files/study_file.h"
#include "muster/tune/storage/storage.h"

#include "tests/process/tune/blows_at_tuner.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"
#include "tests/support/small_specs.h"

namespace muster::testing_process {
namespace {

namespace fs = std::filesystem;

using Clock = std::chrono::steady_clock;

struct StudyFile {
  int64_t samples = 16;
  int64_t slots = 1;
  bool checkpoints = true;
  std::string scheduler = "asha:max_t=9,grace_period=1,reduction_factor=3";
  std::string searcher = "random";
  bool several = false;  ///< objectives, and a constraint
};

/// One per entry of both tables that can take the trials' space, of all others the first.
std::vector<StudyFile> kinds_of_studies() {
  std::vector<StudyFile> kinds = {
      {.checkpoints = true},
      {.checkpoints = false},
      {.checkpoints = true,
       .scheduler = "asha:variant=promotion,max_t=9,grace_period=1,reduction_factor=3"}};
  const auto any = [](const auto&) { return true; };
  const auto drawn = [](const tune::SearcherEntry& entry) { return !entry.enumerates; };
  for (const std::string& spec : test::small_specs(tune::schedulers(), any))
    kinds.push_back({.scheduler = spec});
  for (const std::string& spec : test::small_specs(tune::searchers(), drawn))
    kinds.push_back({.searcher = spec});
  const auto takes_goals = [](const tune::SearcherEntry& entry) {
    return entry.takes_goals && !entry.enumerates;
  };
  for (const std::string& spec : test::small_specs(tune::searchers(), takes_goals))
    kinds.push_back({.scheduler = "fifo", .searcher = spec, .several = true});
  return kinds;
}

fs::path write_study(const fs::path& folder, const StudyFile& file) {
  write_file_atomic(
      folder / "study.toml",
      concat("name = \"kill\"\n",
             file.several ? "objectives = [\"max accuracy\", \"min size\"]\n"
                            "constraints = [\"size <= 128\"]\n"
                          : "metric = \"accuracy\"\nmode = \"max\"\n",
             "num_samples = ",
             file.samples,
             "\nmax_concurrent = ",
             file.slots,
             "\nscheduler = \"",
             file.scheduler,
             "\"\nsearcher = \"",
             file.searcher,
             "\"\nseed = 3\nkeep_checkpoints = 1",
             "\ncommand = [\"",
             test::program_path("muster_killable_trial"),
             "\", \"{lr}\", \"{l1}\", "
             "\"9\", \"",
             file.checkpoints ? 1 : 0,
             "\"]\n[space]\nlr = \"loguniform(1e-4, 1e-1)\"\nl1 = \"sample_from(2 ** randint(2, "
             "9))\"\n[failures]\nmax_failures = -1\nbackoff = "
             "\"0s\"\n[resources_per_trial]\ncpu = 0.001\n"));
  return folder / "study.toml";
}

/// All that must be equal however often the study was killed: no times, attempts or process ids.
std::vector<std::string> outcome_of(const fs::path& storage) {
  std::map<int64_t, std::string> trials;
  for (const tune::Event& event : tune::read_events(storage, "kill")) {
    std::string& text = trials[event.trial];
    if (const auto* added = std::get_if<tune::TrialAdded>(&event.what)) {
      for (const tune::Value& value : added->values) text += tune::value_text(value) + ' ';
    } else if (const auto* reported = std::get_if<tune::Reported>(&event.what)) {
      text += concat("| ",
                     reported->t,
                     ' ',
                     shortest(reported->report.metrics[0].second),
                     ' ',
                     tune::name_of(reported->decision.action),
                     ' ',
                     reported->decision.reason);
    } else if (const auto* ended = std::get_if<tune::AttemptEnded>(&event.what)) {
      if (tune::is_over(ended->then)) text += concat("| ", tune::optuna_name(ended->then));
    }
  }
  trials.erase(-1);
  std::vector<std::string> texts;
  for (auto& [number, text] : trials) texts.push_back(concat(number, ": ", text));
  return texts;
}

/// Those that are needed are there, and no other that was reported.
void check_checkpoints(const tune::StudySpec& spec) {
  tune::KeptCheckpoints kept(spec.keep_checkpoints);
  std::set<std::string> reported;
  for (const tune::Event& event : tune::read_events(spec.storage, "kill")) {
    kept.add(event);
    if (const auto* report = std::get_if<tune::Reported>(&event.what))
      reported.insert(report->report.checkpoint);
    if (const auto* saved = std::get_if<tune::CheckpointSaved>(&event.what))
      reported.insert(saved->checkpoint);
  }
  reported.erase("");
  for (const std::string& path : reported)
    EXPECT_EQ(fs::exists(path), kept.is_needed(path)) << path;
}

/// Replays the log into a fresh core, which checks every stored decision; each trial's reports rise
/// and are there once. Returns how many attempts were further ones: those that a blow hit.
int check_log(const fs::path& study_file, bool finished) {
  const tune::StudySpec spec = tune::read_study_file(study_file);
  tune::StudyCore core(spec);
  std::map<int64_t, int64_t> last;
  std::set<int64_t> as_another;  // trials that went on from another's checkpoint
  int again = 0;
  for (const tune::Event& event : tune::read_events(spec.storage, "kill")) {
    if (const auto* started = std::get_if<tune::AttemptStarted>(&event.what)) {
      const auto state = core.trials()[static_cast<size_t>(event.trial)].state;
      again += started->attempt > 1 && state != tune::TrialState::kPaused ? 1 : 0;
      if (started->donor >= 0) as_another.insert(event.trial);
    }
    core.replay(event);
    if (const auto* reported = std::get_if<tune::Reported>(&event.what)) {
      EXPECT_GT(reported->t, last[event.trial]) << "trial " << event.trial;
      EXPECT_TRUE(reported->t == last[event.trial] + 1 || as_another.contains(event.trial))
          << "trial " << event.trial;
      last[event.trial] = reported->t;
    }
  }
  if (!finished) return again;
  check_checkpoints(spec);
  EXPECT_EQ(static_cast<int64_t>(core.trials().size()), spec.num_samples);
  for (const tune::Trial& trial : core.trials()) EXPECT_TRUE(tune::is_over(trial.state));
  return again;
}

/// A trial that ran twice at once, or was to go on from a checkpoint that was gone.
bool any_went_wrong(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().filename() == "twice" || entry.path().filename() == "lost") return true;
  }
  return false;
}

struct Unbroken {
  std::vector<std::string> outcome;
  double ms = 0;
};

Unbroken run_unbroken(const StudyFile& file) {
  const test::Folder folder;
  const auto start = Clock::now();
  Launched tuner({"tune", write_study(folder.path(), file).string()});
  EXPECT_EQ(tuner.wait(std::chrono::seconds(60)).code, 0) << tuner.err();
  return {outcome_of(folder.path() / "kill.db"),
          std::chrono::duration<double, std::milli>(Clock::now() - start).count()};
}

TEST(TunerKilled, WithOneSlotTheStudyEndsAsAnUnbrokenOne) {
  const unsigned seed = test::seed_of_test();
  SCOPED_TRACE(concat("repeat with MUSTER_TEST_SEED=", seed));
  const std::vector<StudyFile> kinds = kinds_of_studies();
  Blows blows(seed, static_cast<int>(kinds.size()));
  std::map<size_t, std::vector<std::string>> want;
  for (size_t i = 0; !blows.enough() && !HasFailure(); i = (i + 1) % kinds.size()) {
    SCOPED_TRACE(concat(kinds[i].searcher, ", ", kinds[i].scheduler));
    if (!want.contains(i)) {
      const Unbroken run = run_unbroken(kinds[i]);
      want[i] = run.outcome;
      if (blows.count == 0) blows.window = run.ms / 2;
    }
    const test::Folder folder;
    const fs::path study = write_study(folder.path(), kinds[i]);
    kill_until_done(study, blows, [&] { check_log(study, /*finished=*/false); });
    EXPECT_EQ(outcome_of(folder.path() / "kill.db"), want[i]);
    blows.hits += check_log(study, /*finished=*/true);
    EXPECT_FALSE(any_went_wrong(folder.path()));
  }
  EXPECT_GT(blows.hits, blows.most / 4) << "the blows came too late to mean anything";
}

bool is_warden(pid_t pid) try {
  return trim(read_file(concat("/proc/", pid, "/comm"))) == "muster-warden";
} catch (const Error&) {
  return false;  // it is gone
}

// Some before they have said which process they began: what that is has to be dead before it begins
// again.
TEST(WardensKilled, NoTrialRunsTwice) {
  const test::Folder folder;
  const fs::path study =
      write_study(folder.path(), {.samples = 1000, .slots = 2, .scheduler = "fifo"});
  Launched tuner({"tune", study.string()});
  const int most = 20 * test::count_of_blows(kKills);
  const auto until = Clock::now() + kKillTime;
  int blows = 0;
  while (blows < most && Clock::now() < until) {
    for (const pid_t pid : tuner.processes()) {
      if (is_warden(pid) && ::kill(pid, SIGKILL) == 0) ++blows;
    }
  }
  tuner.signal(SIGTERM);
  tuner.wait(std::chrono::seconds(60));
  EXPECT_TRUE(tuner.nothing_left());
  EXPECT_FALSE(any_went_wrong(folder.path()));
  EXPECT_GT(blows, most / 4);
}

TEST(TunerKilled, WithMoreSlotsNothingIsLostOrDoubled) {
  const unsigned seed = test::seed_of_test();
  SCOPED_TRACE(concat("repeat with MUSTER_TEST_SEED=", seed));
  Blows blows(seed, /*kinds=*/4);
  for (int64_t slots = 2; !blows.enough() && !HasFailure(); slots = slots % 4 + 1) {
    const StudyFile file{.samples = 24, .slots = slots, .checkpoints = slots % 2 == 0};
    if (blows.count == 0) blows.window = run_unbroken(file).ms / 2;
    const test::Folder folder;
    const fs::path study = write_study(folder.path(), file);
    kill_until_done(study, blows, [&] { check_log(study, /*finished=*/false); });
    blows.hits += check_log(study, /*finished=*/true);
    EXPECT_FALSE(any_went_wrong(folder.path()));
  }
  EXPECT_GT(blows.hits, blows.most / 4) << "the blows came too late to mean anything";
}

}  // namespace
}  // namespace muster::testing_process
