// Population based training under SIGKILL: real trials that copy each other's checkpoints.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/tune/core/kept_checkpoints.h"
#include "muster/tune/core/study_core.h"
#include "muster/tune/files/study_file.h"
#include "muster/tune/storage/storage.h"

#include "tests/process/tune/blows_at_tuner.h"
#include "tests/process/tune/small_training.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster::testing_process {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMembers = 6, kSteps = 11;

struct PopulationStudy {
  std::string scheduler;
  int64_t every = 1;  ///< steps between checkpoints
  int64_t keep = 1;
  int64_t slots = 1;
};

/// Those whose checkpoints are further apart than their pauses go on from a donor's more than once,
/// and may end before they have one of their own.
const std::vector<PopulationStudy> kPopulations = {
    {.scheduler = "pbt:perturbation_interval=2"},
    {.scheduler = "pbt:perturbation_interval=2,synch=true"},
    {.scheduler = "pbt:perturbation_interval=2,quantile_fraction=0.5", .every = 3},
    {.scheduler = "pbt:perturbation_interval=1,quantile_fraction=0.5", .every = 2, .keep = 2}};

fs::path write_population(const fs::path& folder, const PopulationStudy& study) {
  write_file_atomic(folder / "study.toml",
                    concat("name = \"kill\"\nmetric = \"loss\"\nmode = \"min\"\nnum_samples = ",
                           kMembers,
                           "\nmax_concurrent = ",
                           study.slots,
                           "\nseed = 5\nscheduler = \"",
                           study.scheduler,
                           "\"\nkeep_checkpoints = ",
                           study.keep,
                           "\ncommand = [\"",
                           test::program_path("muster_population_trial"),
                           "\", \"",
                           kSteps,
                           "\", \"",
                           study.every,
                           "\"]\n[space]\nlr = \"loguniform(1e-4, 1e-1)\"\nmomentum = "
                           "\"uniform(0, 0.9)\"\n[failures]\nmax_failures = -1\nbackoff = "
                           "\"0s\"\n[resources_per_trial]\ncpu = 0.001\n"));
  return folder / "study.toml";
}

/// One of the log, that of another folder beside it.
std::string within(const fs::path& folder, const std::string& checkpoint) {
  return checkpoint.empty() ? "nothing" : fs::path(checkpoint).lexically_relative(folder).string();
}

/// Suggestions, reports, verdicts, who went on as whom with which values, and ends: in the order of
/// the log, without times, process ids, and the attempts that a blow made necessary.
std::vector<std::string> story_of(const fs::path& folder) {
  std::vector<std::string> story;
  std::set<int64_t> waiting;  // trials that began or paused, and did not go on since
  for (const tune::Event& event : tune::read_events(folder / "kill.db", "kill")) {
    std::string text;
    const auto add = [&](const tune::Values& values) {
      for (const tune::Value& value : values) text += ' ' + tune::value_text(value);
    };
    if (const auto* added = std::get_if<tune::TrialAdded>(&event.what)) {
      text = "begins with";
      add(added->values);
      waiting.insert(event.trial);
    } else if (const auto* started = std::get_if<tune::AttemptStarted>(&event.what)) {
      if (waiting.erase(event.trial) == 0) continue;
      text = concat(started->reason,
                    ", as ",
                    started->donor,
                    " from ",
                    within(folder, started->from_checkpoint));
      add(started->values);
    } else if (const auto* reported = std::get_if<tune::Reported>(&event.what)) {
      text = concat(reported->t,
                    ": ",
                    shortest(reported->report.metrics[0].second),
                    ", ",
                    within(folder, reported->report.checkpoint),
                    ", ",
                    tune::name_of(reported->decision.action),
                    ' ',
                    reported->decision.reason);
    } else if (const auto* ended = std::get_if<tune::AttemptEnded>(&event.what)) {
      if (ended->then == tune::TrialState::kPending) continue;
      if (ended->then == tune::TrialState::kPaused) waiting.insert(event.trial);
      text = concat("is ", tune::optuna_name(ended->then), ", ", ended->message);
    }
    if (!text.empty()) story.push_back(concat("trial ", event.trial, ' ', text));
  }
  return story;
}

/// Trains along the log, each trial with its values and from what it was given: what must have been
/// reported, and what is in the checkpoints.
class Retraining {
 public:
  explicit Retraining(const tune::StudySpec& spec) : core_(spec), kept_(spec.keep_checkpoints) {}

  /// Replays it, too, which checks each decision.
  void on_event(const tune::Event& event) {
    core_.replay(event);
    kept_.add(event);
    Member& member = members_[event.trial];
    if (const auto* started = std::get_if<tune::AttemptStarted>(&event.what)) {
      if (started->donor >= 0) {
        member.saved = members_.at(started->donor).saved;
        ++copies_;
      }
      member.now = started->from_checkpoint.empty() ? SmallTraining{} : member.saved;
    } else if (const auto* reported = std::get_if<tune::Reported>(&event.what)) {
      train(event.trial, reported->t);
      const double loss = reported->report.metrics[0].second;
      EXPECT_NEAR(loss, member.now.loss(), 1e-9 * std::abs(loss))
          << "trial " << event.trial << " at " << reported->t;
      save(member, reported->report.checkpoint);
    } else if (const auto* saved = std::get_if<tune::CheckpointSaved>(&event.what)) {
      train(event.trial, saved->t);
      save(member, saved->checkpoint);
    }
  }

  const tune::StudyCore& core() const { return core_; }
  int64_t copies() const { return copies_; }

  /// What is needed is there and is what was saved.
  void check_files() const {
    for (const auto& [path, model] : files_) {
      EXPECT_EQ(fs::exists(path), kept_.is_needed(path)) << path;
      if (!kept_.is_needed(path)) continue;
      SmallTraining stored;
      std::ifstream(fs::path(path) / "weights") >> stored.step >> stored.weights[0] >>
          stored.weights[1];
      EXPECT_EQ(stored.step, model.step) << path;
      EXPECT_NEAR(stored.loss(), model.loss(), 1e-9 * model.loss()) << path;
    }
    for (const tune::Trial& trial : core_.trials()) EXPECT_TRUE(fs::exists(trial.checkpoint));
  }

 private:
  struct Member {
    SmallTraining now, saved;
  };

  void train(int64_t trial, int64_t t) {
    const tune::Values& values = core_.trials()[static_cast<size_t>(trial)].values;
    SmallTraining& model = members_[trial].now;
    while (model.step < t) model.train(values[0].as_double(), values[1].as_double());
  }

  void save(Member& member, const std::string& path) {
    if (path.empty()) return;
    member.saved = files_[path] = member.now;
  }

  tune::StudyCore core_;
  tune::KeptCheckpoints kept_;
  std::map<int64_t, Member> members_;
  std::map<std::string, SmallTraining> files_;
  int64_t copies_ = 0;
};

Retraining retrained(const fs::path& study_file) {
  const tune::StudySpec spec = tune::read_study_file(study_file);
  Retraining again(spec);
  for (const tune::Event& event : tune::read_events(spec.storage, "kill")) again.on_event(event);
  return again;
}

/// What the trials have left: files of checkpoints, and marks of what went wrong.
std::set<std::string> left_by_trials(const fs::path& folder) {
  std::set<std::string> left;
  for (const auto& entry : fs::recursive_directory_iterator(folder / "kill-trials")) {
    const std::string name = entry.path().filename();
    if (entry.is_directory() || name == "lock" || name.ends_with(".log")) continue;
    left.insert(entry.path().lexically_relative(folder));
  }
  return left;
}

/// Attempts that a blow has ended.
int crashes_and_interruptions(const fs::path& study_file) {
  int hit = 0;
  for (const tune::Event& event :
       tune::read_events(tune::read_study_file(study_file).storage, "kill")) {
    const auto* ended = std::get_if<tune::AttemptEnded>(&event.what);
    hit += ended != nullptr && ended->then == tune::TrialState::kPending ? 1 : 0;
  }
  return hit;
}

struct UnbrokenPopulation {
  std::vector<std::string> story;
  std::set<std::string> left;
  double ms = 0;
};

UnbrokenPopulation run_population(const PopulationStudy& kind) {
  const test::Folder folder;
  const auto start = Blows::Time::now();
  const fs::path study = write_population(folder.path(), kind);
  Launched tuner({"tune", study.string()});
  EXPECT_EQ(tuner.wait(std::chrono::seconds(60)).code, 0) << tuner.err();
  const double ms = std::chrono::duration<double, std::milli>(Blows::Time::now() - start).count();
  const Retraining again = retrained(study);
  EXPECT_GT(again.copies(), 2) << "nobody learns from others";
  again.check_files();
  return {.story = story_of(folder.path()), .left = left_by_trials(folder.path()), .ms = ms};
}

TEST(PopulationKilled, EndsAsAnUnbrokenOneAndKeepsWhatIsNeeded) {
  const unsigned seed = test::seed_of_test();
  SCOPED_TRACE(concat("repeat with MUSTER_TEST_SEED=", seed));
  Blows blows(seed, static_cast<int>(kPopulations.size()), /*kinds_of_blow=*/5);
  std::map<size_t, UnbrokenPopulation> want;
  for (size_t i = 0; !blows.enough() && !HasFailure(); ++i) {
    const size_t kind = i % kPopulations.size();
    SCOPED_TRACE(kPopulations[kind].scheduler);
    if (!want.contains(kind)) {
      want[kind] = run_population(kPopulations[kind]);
      EXPECT_TRUE(std::ranges::any_of(want[kind].left, [](const std::string& path) {
        return path.find("/copy-1/") != path.npos;
      })) << "who copied saves beside what others may go on from";
      if (blows.count == 0) blows.window = want[kind].ms / 2;
    }
    const test::Folder folder;
    const fs::path study = write_population(folder.path(), kPopulations[kind]);
    blows.at_once = i / kPopulations.size() % 2 == 1;
    kill_until_done(study, blows, [&] { retrained(study); });
    const Retraining again = retrained(study);
    again.check_files();
    EXPECT_EQ(story_of(folder.path()), want[kind].story);
    EXPECT_EQ(left_by_trials(folder.path()), want[kind].left);
    blows.hits += crashes_and_interruptions(study);
  }
  EXPECT_GT(blows.hits, blows.most / 4) << "the blows came too late to mean anything";
}

TEST(PopulationKilled, WithMoreSlotsEachGoesOnFromWhatItWasGiven) {
  const unsigned seed = test::seed_of_test();
  SCOPED_TRACE(concat("repeat with MUSTER_TEST_SEED=", seed));
  Blows blows(seed, static_cast<int>(kPopulations.size()), /*kinds_of_blow=*/5);
  for (size_t i = 0; !blows.enough() && !HasFailure(); ++i) {
    PopulationStudy kind = kPopulations[i % kPopulations.size()];
    kind.slots = 2 + static_cast<int64_t>(i % 3);
    SCOPED_TRACE(concat(kind.scheduler, ", slots ", kind.slots));
    if (blows.count == 0) blows.window = run_population(kind).ms / 2;
    const test::Folder folder;
    const fs::path study = write_population(folder.path(), kind);
    kill_until_done(study, blows, [&] { retrained(study); });
    const Retraining again = retrained(study);
    again.check_files();
    for (const std::string& left : left_by_trials(folder.path()))
      EXPECT_FALSE(left.ends_with("lost") || left.ends_with("twice")) << left;
    blows.hits += crashes_and_interruptions(study);
  }
  EXPECT_GT(blows.hits, blows.most / 4) << "the blows came too late to mean anything";
}

}  // namespace
}  // namespace muster::testing_process
