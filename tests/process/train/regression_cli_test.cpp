// `muster train` of a target that is a number, from a user's own CSV: trained, measured, asked, gone on with.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "tests/process/train/train_words.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::joined;
using test::on_ranks;
using test::Words;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_process::Launched;

constexpr auto kRowsLimit = std::chrono::seconds(120);

/// 150 rows: price is 1000 + 50 a - 20 b, and 100 more of the red ones.
class RegressionCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string table = "a,b,colour,price\n";
    uint64_t state = 3;
    const auto draw = [&state] {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      return static_cast<double>(state >> 40U) / static_cast<double>(1U << 24U);
    };
    for (int i = 0; i < 150; ++i) {
      const double a = draw(), b = draw();
      const bool is_red = i % 3 == 0;
      table += concat(a, ',', b, is_red ? ",red," : ",blue,");
      table += concat(1000 + 50 * a - 20 * b + (is_red ? 100 : 0), '\n');
    }
    put("rows.csv", table);
  }
  void put(const std::string& name, std::string_view bytes) {
    write_file_atomic(folder_.path() / name, bytes);
  }
  std::string at(const std::string& name) const { return folder_.path() / name; }
  Words train(const std::string& output, const Words& more) const {
    return joined(
        {"train",
         "--model",
         "mlp:hidden=16,layers=1",
         "--data",
         concat("csv:", at("rows.csv"), ",target=price,target_kind=number,categorical=colour"),
         "--batch-size",
         "20",
         "--optimizer",
         "adam",
         "--lr",
         "0.02",
         "--epochs",
         "15",
         "--workers",
         "0",
         "--output",
         at(output)},
        more);
  }
  static std::string model_of(const fs::path& run) {
    return read_file(run / "checkpoints" / trim(read_file(run / "latest")) / "model.safetensors");
  }
  static Json json_in(const Launched& program) {
    const size_t from = program.out().find('{');
    EXPECT_NE(from, std::string::npos) << program.out() << program.err();
    return from == std::string::npos ? Json::object()
                                     : parse_json(trim(program.out().substr(from)), "out");
  }

  test::Folder folder_;
};

TEST_F(RegressionCommand, TrainsMeasuresAndPredictsInTheTargetsUnits) {
  for (const int ranks : {1, 2}) {
    const std::string run = concat("run-", ranks);
    const Words words = train(run, {"--json", "--test-weights", "best"});
    Launched trained(ranks > 1 ? on_ranks(ranks, words) : words);
    ASSERT_EQ(trained.wait(kRowsLimit).code, 0) << trained.err();
    const Json result = json_in(trained);
    EXPECT_GT(result.at("test_r2"), 0.9) << result;
    EXPECT_LT(result.at("test_rmse"), 20) << result;
    EXPECT_LE(result.at("test_mae").get<double>(), result.at("test_rmse").get<double>());
    EXPECT_FALSE(result.contains("test_accuracy"));

    const Words evaluate{"evaluate", at(run), "--json"};
    Launched evaluated(ranks > 1 ? on_ranks(ranks, evaluate) : evaluate);
    ASSERT_EQ(evaluated.wait(kRowsLimit).code, 0) << evaluated.err();
    const Json numbers = json_in(evaluated);
    for (const char* name : {"loss", "rmse", "mae", "r2"})
      EXPECT_EQ(numbers.at(name), result.at(concat("test_", name))) << name << ", to the bit";
    EXPECT_EQ(numbers.at("samples"), 30);
    EXPECT_FALSE(numbers.contains("squared_error"));

    Launched predicted({"predict", at(run), "--output", "-"});
    ASSERT_EQ(predicted.wait(kRowsLimit).code, 0) << predicted.err();
    const std::vector<std::string> lines = split(trim(predicted.out()), '\n');
    ASSERT_EQ(lines.size(), 31U) << predicted.out();
    EXPECT_EQ(lines[0], "index,prediction,target");
    double squares = 0;
    const std::string table = read_file(at("rows.csv"));
    for (size_t i = 1; i < lines.size(); ++i) {
      const auto fields = split(lines[i], ',');
      squares += std::pow(*to_double(fields[1]) - *to_double(fields[2]), 2);
      EXPECT_THAT(table, HasSubstr(concat(',', fields[2], '\n'))) << "as it stands there";
    }
    EXPECT_NEAR(std::sqrt(squares / 30), numbers.at("rmse").get<double>(), 1e-3);
    EXPECT_THAT(read_file(folder_.path() / run / "metrics.csv"),
                AllOf(HasSubstr(",rmse,mae,r2,"), Not(HasSubstr("squared_error"))));
  }
}

TEST_F(RegressionCommand, OneAndTwoRanksAgree) {
  Launched one(train("one", {"--json", "--max-steps", "12"}));
  ASSERT_EQ(one.wait(kRowsLimit).code, 0) << one.err();
  Launched two(on_ranks(2, train("two", {"--json", "--max-steps", "12"})));
  ASSERT_EQ(two.wait(kRowsLimit).code, 0) << two.err();
  const Json a = json_in(one), b = json_in(two);
  for (const char* name : {"test_rmse", "test_mae", "test_r2", "test_loss"}) {
    const auto expected = a.at(name).get<double>();
    EXPECT_NEAR(b.at(name).get<double>(), expected, 1e-3 * std::abs(expected) + 1e-3) << name;
  }
}

TEST_F(RegressionCommand, GoesOnInTheMiddleOfAnEpochBitForBit) {
  for (const int ranks : {1, 2}) {
    const std::string whole = concat("whole-", ranks), cut = concat("cut-", ranks);
    const auto wait_for_end = [&](const Words& words) {
      Launched program(ranks > 1 ? on_ranks(ranks, words) : words);
      EXPECT_EQ(program.wait(kRowsLimit).code, 0) << program.err();
      return program.err();
    };
    const Words huber{"--loss", "huber:delta=0.5"};
    wait_for_end(train(whole, huber));
    wait_for_end(train(cut, joined(huber, {"--max-steps", "8"})));
    EXPECT_THAT(
        wait_for_end({"train", "--resume", at(cut), "--max-steps", test::latest_step(at(whole))}),
        HasSubstr("resuming after step 8"));
    EXPECT_TRUE(model_of(at(whole)) == model_of(at(cut))) << ranks;
  }
}

TEST_F(RegressionCommand, OtherRowsArePredictedByWhatTheRunHasLearned) {
  Launched trained(train("run", {}));
  ASSERT_EQ(trained.wait(kRowsLimit).code, 0) << trained.err();
  EXPECT_THAT(trained.out(), HasSubstr("test rmse "));
  put("new.csv", "colour,b,a\nred,0.5,0.5\nblue,0.5,0.5\n");
  Launched predicted({"predict", at("run"), "--data", "csv:" + at("new.csv"), "--output", "-"});
  ASSERT_EQ(predicted.wait(kRowsLimit).code, 0) << predicted.err();
  const std::vector<std::string> lines = split(trim(predicted.out()), '\n');
  ASSERT_EQ(lines.size(), 3U) << predicted.out();
  EXPECT_EQ(lines[0], "index,prediction");
  EXPECT_NEAR(*to_double(split(lines[1], ',')[1]), 1115, 30);
  EXPECT_NEAR(*to_double(split(lines[2], ',')[1]), 1015, 30);
  Launched measured({"evaluate", at("run"), "--data", "csv:" + at("new.csv")});
  EXPECT_EQ(measured.wait(kRowsLimit).code, 2);
  EXPECT_THAT(measured.err(),
              AllOf(HasSubstr("the target \"price\" of the run"),
                    HasSubstr("new.csv (got the columns colour, b, a)")));
  Launched shares({"predict", at("run"), "--probabilities", "--output", "-"});
  EXPECT_EQ(shares.wait(kRowsLimit).code, 2);
  EXPECT_THAT(shares.err(), HasSubstr("the run predicts a number"));
}

// Told once, though the run has no step left; also of a checkpoint that knew the old place.
TEST_F(RegressionCommand, ARunWhoseRowsHaveMovedIsToldOnce) {
  Launched trained(train("run", {"--max-steps", "3", "--checkpoint-every", "2"}));
  ASSERT_EQ(trained.wait(kRowsLimit).code, 0) << trained.err();
  fs::rename(at("rows.csv"), at("moved.csv"));
  Launched told({"train", "--resume", at("run"), "--data-dir", at("moved.csv")});
  ASSERT_EQ(told.wait(kRowsLimit).code, 0) << told.err();
  for (const char* weights : {"last", "step-2"}) {
    Launched evaluated({"evaluate", at("run"), "--weights", weights});
    EXPECT_EQ(evaluated.wait(kRowsLimit).code, 0) << weights << ": " << evaluated.err();
  }
  Launched again({"train", "--resume", at("run")});
  EXPECT_EQ(again.wait(kRowsLimit).code, 0) << again.err();
}

// The mean and deviation of the target are learned, and another table has others.
TEST_F(RegressionCommand, AResumeWithOtherTargetsIsRefused) {
  Launched trained(train("run", {"--max-steps", "3"}));
  ASSERT_EQ(trained.wait(kRowsLimit).code, 0) << trained.err();
  put("rows.csv", concat(read_file(at("rows.csv")), "0.5,0.5,red,9000\n0.5,0.5,red,8000\n"));
  Launched resumed({"train", "--resume", at("run")});
  EXPECT_EQ(resumed.wait(kRowsLimit).code, 2);
  EXPECT_THAT(resumed.err(), HasSubstr("is what the run has learned by: "));
}

}  // namespace
}  // namespace muster
