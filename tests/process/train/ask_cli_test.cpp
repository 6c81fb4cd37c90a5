// `muster evaluate` and `muster predict` as a user runs them, on runs of `muster train`.
#include <algorithm>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "tests/process/train/train_words.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::Words;
using ::testing::HasSubstr;
using testing_process::Launched;

constexpr const char* kAskedData =
    "synthetic:samples=220,test_samples=61,size=8,classes=4,noise=0.9";

struct Heard {
  int code = -1;
  std::string out, err;
};

Heard heard(const Words& words) {
  Launched program(words);
  const auto ended = program.wait(std::chrono::seconds(60));
  EXPECT_TRUE(program.nothing_left());
  return {ended.code, program.out(), program.err()};
}

/// The JSON object on stdout, of rank 0 under `muster run`.
Json object_of(const Heard& heard) {
  EXPECT_EQ(heard.code, 0) << heard.err;
  const size_t from = heard.out.find('{');
  EXPECT_NE(from, std::string::npos) << heard.out << heard.err;
  return from == std::string::npos ? Json::object()
                                   : parse_json(trim(heard.out.substr(from)), "out");
}

/// Trains in `folder`/a; what `muster train --json` says.
Json trained(const fs::path& folder, int ranks, const Words& more = {}) {
  Words words = test::train_words(
      kAskedData,
      "12",
      {"--workers", "0", "--epochs", "2", "--top-k", "2", "--json", "--output", folder / "a"});
  words = test::joined(words, more);
  return object_of(heard(ranks > 1 ? test::on_ranks(ranks, words) : words));
}

Heard asked(int ranks, const Words& words) {
  return heard(ranks > 1 ? test::on_ranks(ranks, words) : words);
}

TEST(EvaluateCommand, GivesTheNumbersOfTheRunsOwnTest) {
  for (const int ranks : {1, 2}) {
    for (const char* weights : {"last", "best"}) {
      const test::Folder folder;
      const Json run =
          trained(folder.path(), ranks, {"--test-weights", weights, "--eval-batch-size", "7"});
      const Json numbers =
          object_of(asked(ranks, {"evaluate", folder.path() / "a", "--json", "--workers", "1"}));
      EXPECT_EQ(numbers.at("loss"), run.at("test_loss")) << "to the bit";
      EXPECT_EQ(numbers.at("accuracy"), run.at("test_accuracy"));
      EXPECT_EQ(numbers.at("samples"), 61);
      EXPECT_GE(numbers.at("top_k_accuracy"), numbers.at("accuracy"));
      EXPECT_GT(numbers.at("macro_f1"), 0);
      EXPECT_EQ(numbers.at("split"), "test");
      EXPECT_EQ(numbers.at("checkpoint"), run.at("checkpoint")) << "what was tested";
    }
  }
}

TEST(EvaluateCommand, AnswersInTheDtypeThatTheRunKeepsItsWeightsIn) {
  const test::Folder folder;
  const Json run = trained(folder.path(), 2, {"--strategy", "zero2:dtype=bfloat16"});
  for (const int ranks : {1, 2}) {
    const Json numbers =
        object_of(asked(ranks, {"evaluate", folder.path() / "a", "--json", "--weights", "last"}));
    EXPECT_NEAR(numbers.at("loss").get<double>(), run.at("test_loss").get<double>(), 1e-6);
    EXPECT_EQ(numbers.at("accuracy"), run.at("test_accuracy"));
  }
}

TEST(EvaluateCommand, TellsNumbersLineByLine) {
  const test::Folder folder;
  trained(folder.path(), 1);
  const Heard said = heard({"evaluate", folder.path() / "a"});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_THAT(said.out,
              ::testing::MatchesRegex("loss [0-9.]+\naccuracy [0-9.]+\ntop_k_accuracy [0-9.]+\n"
                                      "macro F1 [0-9.]+\n"));
  EXPECT_THAT(said.err,
              HasSubstr("mlp:hidden=16 after step 34 on the 61 test samples of synthetic"));
}

TEST(EvaluateCommand, HasEachSplitOnAnyNumberOfRanks) {
  const test::Folder folder;
  trained(folder.path(), 1);
  const std::string run = folder.path() / "a";
  for (const auto& [split, samples] :
       std::vector<std::pair<std::string, int64_t>>{{"train", 202}, {"validation", 18}}) {
    const Json one = object_of(heard({"evaluate", run, "--split", split, "--json"}));
    EXPECT_EQ(one.at("samples"), samples);
    for (const int ranks : {2, 3}) {
      const Json more = object_of(
          asked(ranks, {"evaluate", run, "--split", split, "--json", "--batch-size", "7"}));
      EXPECT_EQ(more.at("accuracy"), one.at("accuracy"));
      EXPECT_NEAR(more.at("loss").get<double>(), one.at("loss").get<double>(), 1e-6);
    }
  }
  // The validation's are those of the run's last epoch.
  const std::string rows = read_file(folder.path() / "a" / "metrics.jsonl");
  Json last;
  for (const std::string& line : split(trim(rows), '\n')) {
    const Json row = parse_json(line, "metrics.jsonl");
    if (row.at("phase") == "validate") last = row;
  }
  const Json again = object_of(heard({"evaluate", run, "--split", "validation", "--json"}));
  EXPECT_EQ(again.at("accuracy"), last.at("accuracy"));
}

TEST(EvaluateCommand, ReadsAFolderThatItMayNotWriteToAndLeavesNothingThere) {
  const test::Folder folder;
  trained(folder.path(), 1);
  const fs::path run = folder.path() / "a";
  const auto listed = [&] {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(run))
      names.push_back(
          concat(entry.path().string(), ' ', entry.last_write_time().time_since_epoch().count()));
    std::sort(names.begin(), names.end());
    return names;
  };
  const auto before = listed();
  ::chmod(run.c_str(), 0555);
  const Heard said = heard({"evaluate", run});
  const Heard predicted = heard({"predict", run, "--output", folder.path() / "p.csv"});
  ::chmod(run.c_str(), 0755);
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_EQ(listed(), before);
}

TEST(EvaluateCommand, LooksAtARunThatGoesOn) {
  const test::Folder folder;
  const std::string run = folder.path() / "a";
  Launched training(test::train_uneven({"--output",
                                        run,
                                        "--epochs",
                                        "100000",
                                        "--checkpoint-every",
                                        "2",
                                        "--keep-checkpoints",
                                        "1"}));
  ASSERT_TRUE(training.wait_for("epoch 2/")) << training.err();
  // The line comes after step 34 and before its checkpoint, and that of step 32 may still be on its
  // way to the disk then.
  int64_t newest = 30;
  for (int i = 0; i < 3; ++i) {
    const auto step = object_of(heard({"evaluate", run, "--json"})).at("step").get<int64_t>();
    EXPECT_GE(step, newest);
    newest = step;
  }
  training.signal(SIGINT);
  EXPECT_EQ(training.wait(std::chrono::seconds(60)).code, 130) << training.err();
}

TEST(EvaluateCommand, RefusesWhatIsNoRunOrDoesNotFitIt) {
  const test::Folder folder;
  trained(folder.path(), 1, {"--validation-samples", "0"});
  const fs::path run = folder.path() / "a";
  const std::string step = "step-" + test::latest_step(run);
  for (const auto& [words, says] : std::vector<std::pair<Words, std::string>>{
           {{folder.path() / "b"}, "there is no such folder"},
           {{run / "checkpoints" / step}, "hint: " + run.string() + " --weights " + step},
           {{run, "--weights", "best"}, "take --weights last"},
           {{run, "--weights", "step-7"}, "it has step-"},
           {{run, "--split", "validation"}, "the run held out no samples"},
           {{run, "--split", "tset"}, "did you mean \"test\"?"},
           {{run, "--batch-size", "0"}, "--batch-size: at least 1"},
           {{run, "--data", "synthetic:size=9,classes=4"},
            "samples of 1 x 8 x 8, 4 classes (got samples of 1 x 9 x 9, 4 classes)"},
           {{run, "--data", "synthetic:size=8,classes=5"}, "(got samples of 1 x 8 x 8, 5 classes)"},
           {{run, "--data", "synthetic:size=8,classes=4,seed=9", "--split", "validation"},
            "those that the run held out of its own training data"},
           {{run, "--data", "synthetics"}, "did you mean \"synthetic\"?"}}) {
    const Heard refused = heard(test::joined({"evaluate"}, words));
    EXPECT_EQ(refused.code, 2) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(says));
    EXPECT_EQ(refused.out, "");
  }
  const Heard predicted = heard({"predict", folder.path() / "b", "--output", "-"});
  EXPECT_EQ(predicted.code, 2) << predicted.err;
  EXPECT_THAT(predicted.err, HasSubstr("there is no such folder"));
  const Heard both = asked(2, {"evaluate", folder.path() / "b"});
  EXPECT_EQ(both.code, 2) << both.err;
  EXPECT_THAT(both.err, HasSubstr("there is no such folder"));
  fs::remove(run / "checkpoints" / step / "model.safetensors");
  const Heard without = heard({"evaluate", run});
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.err, HasSubstr("model.safetensors is missing"));
}

std::vector<Words> rows_of(const std::string& csv) {
  std::vector<Words> rows;
  for (const std::string& line : split(trim(csv), '\n')) rows.push_back(split(line, ','));
  return rows;
}

TEST(PredictCommand, WritesALineForEachSampleAlikeOnAnyNumberOfRanks) {
  const test::Folder folder;
  trained(folder.path(), 1);
  const std::string run = folder.path() / "a";
  const fs::path csv = folder.path() / "p.csv";
  const Json numbers = object_of(heard({"evaluate", run, "--json"}));
  std::string first;
  for (const int ranks : {1, 2, 3}) {
    Words words{"predict", run, "--output", csv, "--probabilities", "--batch-size", "8"};
    words = test::on_ranks(ranks, words);  // one thread each
    words.insert(words.begin() + 1, {"--no-prefix"});
    Launched program(words, {.environment = {"OMP_NUM_THREADS=1"}});
    ASSERT_EQ(program.wait(std::chrono::seconds(60)).code, 0) << program.err();
    const std::string text = read_file(csv);
    if (ranks == 1) first = text;
    EXPECT_EQ(text, first) << ranks << " ranks";
  }
  const std::vector<Words> rows = rows_of(first);
  EXPECT_EQ(
      join(rows.at(0), ","),
      "index,class,probability,probability_0,probability_1,probability_2,probability_3,target");
  ASSERT_EQ(rows.size(), 62U);
  int64_t right = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    const Words& row = rows[i];
    EXPECT_EQ(row.at(0), std::to_string(i - 1));
    double sum = 0, most = 0;
    for (size_t c = 3; c < 7; ++c) {
      const double p = to_double(row.at(c)).value();
      sum += p;
      most = std::max(most, p);
    }
    EXPECT_NEAR(sum, 1, 1e-5);
    EXPECT_EQ(to_double(row.at(2)).value(), most);
    EXPECT_EQ(row.at(2), row.at(3 + static_cast<size_t>(to_int(row.at(1)).value())));
    right += row.at(1) == row.at(7) ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(right) / 61, numbers.at("accuracy").get<double>(), 1e-12);
}

TEST(PredictCommand, NamesClassesAndWritesToStdout) {
  const test::Folder folder;
  const std::string run = folder.path() / "a";
  Launched training(test::train_words(
      "fashion-mnist",
      "64",
      {"--workers", "0", "--max-steps", "4", "--output", run, "--validation-samples", "9"}));
  ASSERT_EQ(training.wait(std::chrono::seconds(60)).code, 0) << training.err();
  const Heard said = heard({"predict", run, "--split", "validation", "--output", "-"});
  EXPECT_EQ(said.code, 0) << said.err;
  const std::vector<Words> rows = rows_of(said.out);
  EXPECT_EQ(join(rows.at(0), ","), "index,class,name,probability,target");
  EXPECT_EQ(rows.size(), 10U);
  const std::vector<std::string> names{"T-shirt/top",
                                       "Trouser",
                                       "Pullover",
                                       "Dress",
                                       "Coat",
                                       "Sandal",
                                       "Shirt",
                                       "Sneaker",
                                       "Bag",
                                       "Ankle boot"};
  for (size_t i = 1; i < rows.size(); ++i)
    EXPECT_EQ(rows[i].at(2), names.at(static_cast<size_t>(to_int(rows[i].at(1)).value())));
}

TEST(PredictCommand, LeavesTheOldFileWhenItIsStoppedOrRefused) {
  const test::Folder folder;
  trained(folder.path(), 1);
  const std::string run = folder.path() / "a";
  const fs::path own = folder.path() / "own";
  fs::create_directory(own);
  const fs::path csv = own / "p.csv";
  std::ofstream(csv) << "old\n";
  const std::string many = "synthetic:test_samples=200000,samples=1,size=8,classes=4";
  for (const int number : {SIGINT, SIGKILL}) {
    Launched program({"predict", run, "--data", many, "--batch-size", "1", "--output", csv});
    // The temporary file beside it is there once the samples are asked.
    while (std::distance(fs::directory_iterator(own), fs::directory_iterator()) < 2)
      std::this_thread::yield();
    program.signal(number);
    const auto ended = program.wait(std::chrono::seconds(60));
    EXPECT_TRUE(ended.code == 130 || ended.signal == number) << program.err();
    EXPECT_EQ(read_file(csv), "old\n");
    for (const auto& entry : fs::directory_iterator(own)) {
      if (number == SIGKILL && entry.path() != csv) fs::remove(entry.path());
    }
  }
  for (const auto& [output, says] : std::vector<std::pair<std::string, std::string>>{
           {own, "it is a folder, not a file"},
           {"/dev/null", "it is no file that can be replaced"}}) {
    const Heard refused = asked(2, {"predict", run, "--output", output});
    EXPECT_EQ(refused.code, 2) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(says));
  }
  const Heard no_folder = heard({"predict", run, "--output", own / "none" / "p.csv"});
  EXPECT_EQ(no_folder.code, 1);
  EXPECT_THAT(no_folder.err, HasSubstr("cannot create"));
}

}  // namespace
}  // namespace muster
