// Studies whose trials are `muster train`: it reports by itself, ends when told, goes on after a
// pause as if there had been none, and says why it failed.
#include <cmath>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "tests/process/train/train_words.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::Words;
using ::testing::HasSubstr;
using testing_process::Launched;

std::string program() { return test::program_path("muster"); }

constexpr int kEpochs = 4;

Words train_words(const std::string& hidden, const std::string& lr) {
  return {"train",
          "--data",
          "synthetic:samples=600,test_samples=60,size=8,classes=4",
          "--model",
          "mlp:hidden=" + hidden,
          "--lr",
          lr,
          "--epochs",
          std::to_string(kEpochs),
          "--batch-size",
          "16",
          "--workers",
          "0"};
}

std::string study(const std::string& variant) {
  std::string command = concat('"', program(), '"');
  for (const std::string& word : train_words("{hidden}", "{lr}")) command += ", \"" + word + '"';
  return concat(R"toml(
name = "small"
metric = "loss"
mode = "min"
num_samples = 6
max_concurrent = 2
scheduler = "asha:max_t=4,grace_period=1,reduction_factor=2,variant=)toml",
                variant,
                "\"\ncommand = [",
                command,
                R"toml(]
[space]
hidden = "choice(4, 8, 16)"
lr = "loguniform(1e-3, 1e-1)"
[searcher]
type = "random"
seed = 3
)toml");
}

/// The stored study after `muster tune` has ended.
Json run_study(const fs::path& folder, const std::string& variant) {
  std::ofstream(folder / "study.toml") << study(variant);
  Launched tuner({"tune", folder / "study.toml"});
  EXPECT_EQ(tuner.wait(std::chrono::seconds(120)).code, 0) << tuner.err();
  EXPECT_TRUE(tuner.nothing_left());
  Launched show({"study", "show", folder / "small.db", "--json"});
  EXPECT_EQ(show.wait().code, 0) << show.err();
  return parse_json(show.out(), "muster study show");
}

/// Validation losses after each epoch of an unbroken `muster train`. With one thread, which is what
/// a trial has by default: with another number of them sums are made in another order.
std::vector<double> unbroken_losses(const fs::path& output, const Json& params) {
  Words words = train_words(std::to_string(params["hidden"].get<int>()),
                            shortest(params["lr"].get<double>()));
  words.insert(words.end(), {"--output", output});
  Launched train(words, {.environment = {"OMP_NUM_THREADS=1"}});
  EXPECT_EQ(train.wait(std::chrono::seconds(60)).code, 0) << train.err();
  std::vector<double> losses;
  std::istringstream rows(read_file(output / "metrics.jsonl"));
  for (std::string row; std::getline(rows, row);) {
    const Json json = parse_json(row, "metrics.jsonl");
    if (json["phase"] == "validate") losses.push_back(json["loss"].get<double>());
  }
  return losses;
}

TEST(TuneOverTrain, ReportsEachEpochAndEndsTrialsThatAreToldToStop) {
  const test::Folder folder;
  const Json stored = run_study(folder.path(), "stopping");
  int finished = 0, stopped = 0;
  ASSERT_EQ(stored["trials"].size(), 6u);
  for (const Json& trial : stored["trials"]) {
    const size_t reports = trial["reports"].size();
    EXPECT_EQ(trial["step"].get<size_t>(), reports);
    EXPECT_TRUE(trial["metrics"].contains("accuracy") && trial["metrics"].contains("train_loss"));
    if (trial["state"] == "COMPLETE") {
      ++finished;
      EXPECT_EQ(reports, size_t{kEpochs}) << trial;
    } else if (trial["state"] == "PRUNED") {
      ++stopped;
      EXPECT_LT(reports, size_t{kEpochs}) << trial;
    }
  }
  EXPECT_GE(finished, 1);
  EXPECT_EQ(finished + stopped, 6);
}

TEST(TuneOverTrain, ATrialThatWasPausedHasTheLossesOfAnUnbrokenRun) {
  const test::Folder folder;
  const Json stored = run_study(folder.path(), "promotion");
  const Json* whole = nullptr;
  for (const Json& trial : stored["trials"])
    if (trial["step"] == kEpochs) whole = &trial;
  ASSERT_NE(whole, nullptr) << stored;
  EXPECT_GE((*whole)["attempts"].get<int>(), 3) << "paused after 1 and 2 epochs";
  // A pause comes with the epoch, not a step later: no attempt went back.
  for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
    EXPECT_NE(entry.path().filename(), "abandoned") << entry;
  const auto want = unbroken_losses(folder.path() / "unbroken", (*whole)["params"]);
  ASSERT_EQ(want.size(), size_t{kEpochs});
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_EQ((*whole)["reports"][i]["metrics"]["loss"].get<double>(), want[i])
        << "epoch " << i + 1;
}

/// A study of one trial with these flags besides, which ends as `code` says.
Json run_one_trial(const fs::path& folder,
                   const Words& more,
                   int code,
                   std::string* err = nullptr) {
  std::string command = concat('"', program(), '"');
  for (const std::string& word : test::joined(train_words("8", "{lr}"), more))
    command += ", \"" + word + '"';
  std::ofstream(folder / "study.toml") << "name = \"one\"\nmetric = \"loss\"\nmode = \"min\"\n"
                                          "num_samples = 1\ncommand = ["
                                       << command << "]\n[space]\nlr = 0.01\n";
  Launched tuner({"tune", folder / "study.toml"});
  EXPECT_EQ(tuner.wait(std::chrono::seconds(60)).code, code) << tuner.err();
  if (err != nullptr) *err = tuner.err();
  Launched show({"study", "show", folder / "one.db", "--json"});
  EXPECT_EQ(show.wait().code, 0) << show.err();
  return parse_json(show.out(), "muster study show").at("trials").at(0);
}

TEST(TuneOverTrain, ATrialThatMaxStepsEndsInsideAnEpochReportsIt) {
  const test::Folder folder;
  const Json trial = run_one_trial(folder.path(), {"--max-steps", "3"}, 0);
  EXPECT_EQ(trial["state"], "COMPLETE") << trial;
  ASSERT_EQ(trial["reports"].size(), 1u);
  EXPECT_TRUE(trial["metrics"].contains("loss") && trial["metrics"].contains("train_loss"));
}

TEST(TuneOverTrain, TheLossOfATrialWithoutValidationIsThatOfItsTraining) {
  const test::Folder folder;
  std::string err;
  const Json trial = run_one_trial(folder.path(), {"--validation-samples", "0"}, 1, &err);
  EXPECT_EQ(trial["state"], "FAIL") << trial;
  EXPECT_THAT(err, HasSubstr("or the study have metric = \"train_loss\""));
}

TEST(TuneOverTrain, AFlagThatTrainHasNotIsRefusedBeforeTheFirstTrial) {
  const test::Folder folder;
  std::string text = study("stopping");
  text.replace(text.find("--epochs"), 8, "--epohcs");
  std::ofstream(folder.path() / "study.toml") << text;
  Launched tuner({"tune", folder.path() / "study.toml"});
  EXPECT_EQ(tuner.wait(std::chrono::seconds(60)).code, 2) << tuner.err();
  EXPECT_THAT(tuner.err(), HasSubstr("refused by `muster train`"));
  EXPECT_THAT(tuner.err(), HasSubstr("did you mean --epochs?"));
  EXPECT_FALSE(fs::exists(folder.path() / "small.db"));
}

TEST(TuneOverTrain, ACommandIsTriedAsItsTrialsAreRunAlsoByATunerThatIsARankOfSomeJob) {
  const test::Folder folder;
  std::ofstream(folder.path() / "study.toml") << study("stopping");
  // Of such a job `muster train` says that WORLD_SIZE is missing; its trials are none of it.
  Launched tuner({"tune", folder.path() / "study.toml", "--num-samples", "1"},
                 {.environment = {"RANK=3"}});
  EXPECT_EQ(tuner.wait(std::chrono::seconds(120)).code, 0) << tuner.err();
}

TEST(TuneOverTrain, ATrialSaysThatItsLossWasNotFiniteOrMemoryRanOut) {
  const test::Folder folder;
  // With a limit, for some machines promise any amount of memory.
  std::string command =
      concat(R"("sh", "-c", "ulimit -v 60000000 && exec \"$@\"", "sh", ")", program(), '"');
  for (const std::string& word : train_words("{hidden}", "1e30")) command += ", \"" + word + '"';
  std::ofstream(folder.path() / "study.toml")
      << "name = \"small\"\nmetric = \"loss\"\nmode = \"min\"\nnum_samples = 1\ncommand = ["
      << command << "]\n[space]\n"
      << "hidden = \"grid_search([4, 900000])\"\n[failures]\nmax_failures = 0\n";
  Launched tuner({"tune", folder.path() / "study.toml"});
  EXPECT_EQ(tuner.wait(std::chrono::seconds(120)).code, 1) << tuner.err();
  Launched show({"study", "show", folder.path() / "small.db", "--json"});
  EXPECT_EQ(show.wait().code, 0) << show.err();
  const Json trials = parse_json(show.out(), "muster study show")["trials"];
  ASSERT_EQ(trials.size(), 2u) << tuner.err();
  EXPECT_EQ(trials[0]["failure"], "nan") << trials[0];
  EXPECT_THAT(trials[0]["reason"].get<std::string>(), HasSubstr("the loss is not finite in step"));
  EXPECT_EQ(trials[1]["failure"], "oom") << trials[1];
  EXPECT_THAT(trials[1]["reason"].get<std::string>(), HasSubstr("can't allocate memory"));
}

}  // namespace
}  // namespace muster
