// The config file of a run and its plan, of which a kill can leave only such as agree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/train/checkpoints/checkpoint.h"
#include "muster/train/checkpoints/kept_plan.h"
#include "muster/train/loop/run_start.h"
#include "muster/train/program/told_words.h"

#include "tests/support/folder.h"
#include "tests/train/checkpoints/kill_at_change.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::kill_at_each_change;
using ::testing::HasSubstr;
using ::testing::Not;

const program::ConfigKey kSaidKeys[] = {{.name = "epochs"}, {.name = "lr"}, {.name = "model"}};

train::FitPlan plan_of(int64_t epochs) {
  train::FitPlan plan;
  plan.options.epochs = epochs;
  plan.options.lr = plan.lr = 0.5;
  plan.record = train::to_json(plan.options, plan);
  return plan;
}

void save_of(int64_t epochs, const fs::path& run, int64_t step) {
  train::Checkpoint checkpoint;
  checkpoint.position = {.step = step};
  checkpoint.global_batch = 16;
  checkpoint.plan = plan_of(epochs).record;
  checkpoint.model = {{"w", torch::full({3}, static_cast<double>(step))}};
  train::write_checkpoint(run, checkpoint);
}

void say(const fs::path& run, int64_t epochs) {
  write_file_atomic(run / "config.toml",
                    concat("epochs = ", epochs, "\nlr = 0.5\nmodel = \"m\"\n"));
}

/// A start that goes on from the step and is told so many epochs, up to its first step.
void start(const fs::path& run, const fs::path& from_run, int64_t step, int64_t epochs) {
  const train::FitPlan plan = plan_of(epochs);
  const train::FitCallbacks none;
  const train::RunLog log(plan, run, /*is_first=*/true, none);
  const train::Checkpoint from = train::read_checkpoint(train::checkpoint_folder(from_run, step));
  const auto owned = train::open_run_folder(plan, run, &from, nullptr, log);
  train::keep_config(run,
                     /*goes_on=*/true,
                     {concat("--epochs=", epochs)},
                     plan.options,
                     train::FitOptions(),
                     kSaidKeys,
                     [](const std::string& line) { ADD_FAILURE() << line; });
}

/// Where both are there they say the same.
void expect_agreement(const fs::path& run) {
  const auto plan = train::kept_plan(run);
  if (!plan || !fs::exists(run / "config.toml")) return;
  EXPECT_THAT(read_file(run / "config.toml"),
              HasSubstr(concat("epochs = ", plan->at("epochs").get<int64_t>(), '\n')));
}

void expect_whole(const fs::path& run, int64_t epochs) {
  EXPECT_EQ(train::kept_plan(run)->at("epochs"), epochs);
  const std::string config = read_file(run / "config.toml");
  EXPECT_THAT(config, HasSubstr(concat("epochs = ", epochs, '\n')));
  EXPECT_THAT(config, HasSubstr("model = \"m\"")) << "what was said at the run's start";
  EXPECT_FALSE(fs::exists(run / "config.toml.before"));
}

TEST(KeptConfig, AKillAtAnyChangeLeavesNoneOrOneThatAgreesWithThePlan) {
  const auto make = [](const fs::path& run) {
    save_of(2, run, 10);
    say(run, 2);
  };
  const auto tell = [](const fs::path& run) { start(run, run, 10, 5); };
  kill_at_each_change(make, tell, [&](const fs::path& run) {
    expect_agreement(run);
    tell(run);  // the same command again
    expect_whole(run, 5);
  });
}

TEST(KeptConfig, SoDoesOneOfARunThatGoesBack) {
  const auto make = [](const fs::path& run) {
    save_of(2, run, 10);
    save_of(7, run, 20);
    say(run, 7);
  };
  for (const int64_t epochs : {2, 4}) {
    const auto tell = [epochs](const fs::path& run) { start(run, run, 10, epochs); };
    kill_at_each_change(make, tell, [&](const fs::path& run) {
      expect_agreement(run);
      tell(run);
      expect_whole(run, epochs);
    });
  }
}

TEST(KeptConfig, SoDoesOneOfARunThatGoesOnElsewhere) {
  const auto make = [](const fs::path& place) {
    save_of(2, place / "a", 10);
    say(place / "a", 2);
    fs::create_directory(place / "b");
    say(place / "b", 9);  // of a start that saved nothing
  };
  const auto tell = [](const fs::path& place) { start(place / "b", place / "a", 10, 5); };
  kill_at_each_change(make, tell, [&](const fs::path& place) {
    expect_agreement(place / "b");
    expect_whole(place / "a", 2);
    if (fs::exists(place / "b" / "latest"))
      start(place / "b", place / "b", 10, 5);
    else
      tell(place);
    expect_whole(place / "b", 5);
  });
}

TEST(KeptConfig, OneThatCannotBeReadIsSaidAndKept) {
  const test::Folder folder;
  const fs::path& run = folder.path();
  save_of(2, run, 10);
  write_file_atomic(run / "config.toml", "epochs = = 2\n");
  const train::FitPlan plan = plan_of(5);
  train::withdraw_config(run);
  std::vector<std::string> notes;
  train::keep_config(run,
                     /*goes_on=*/true,
                     {"--epochs=5"},
                     plan.options,
                     train::FitOptions(),
                     kSaidKeys,
                     [&](const std::string& line) { notes.push_back(line); });
  EXPECT_THAT(notes, ::testing::ElementsAre(HasSubstr("config.toml.before:1:")));
  EXPECT_EQ(read_file(run / "config.toml.before"), "epochs = = 2\n");
  EXPECT_FALSE(fs::exists(run / "config.toml"));
}

}  // namespace
}  // namespace muster
