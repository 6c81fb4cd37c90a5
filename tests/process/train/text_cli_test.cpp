// A user's own texts and rows, from the file to predictions, as a user runs them.
#include <random>

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
using test::latest_step;
using test::on_ranks;
using test::Words;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_process::Ended;
using testing_process::Launched;

constexpr std::chrono::seconds kTextLimit{90};

class TextCommand : public ::testing::Test {
 protected:
  TextCommand() {
    std::mt19937 draw(3);  // the same numbers with every library
    std::string table = "text,label\n";
    for (int row = 0; row < 240; ++row) {
      const bool is_good = row % 2 == 0;
      table += '"';
      for (unsigned word = 0; word < 1 + draw() % 9; ++word)
        table += concat("w", draw() % 30, word % 3 == 2 ? ", " : " ");
      table +=
          concat(is_good ? "good" : "bad", " w", draw() % 30, '"', is_good ? ",yes\n" : ",no\n");
    }
    put("rows.csv", table);
  }
  void put(const std::string& name, std::string_view bytes) {
    write_file_atomic(folder_.path() / name, bytes);
  }
  std::string at(const std::string& name) const { return folder_.path() / name; }
  Words train(const std::string& output,
              const Words& more,
              const std::string& model = kLstm) const {
    return joined({"train",
                   "--model",
                   model,
                   "--data",
                   "text:" + at("rows.csv"),
                   "--batch-size",
                   "16",
                   "--optimizer",
                   "adam",
                   "--lr",
                   "0.02",
                   "--epochs",
                   "4",
                   "--output",
                   at(output)},
                  more);
  }
  static std::string model_of(const fs::path& run) {
    return read_file(run / "checkpoints" / trim(read_file(run / "latest")) / "model.safetensors");
  }

  static constexpr const char* kLstm = "lstm:hidden=12,embedding=8,dropout=0.1";
  static constexpr const char* kTransformer =
      "transformer:width=8,heads=2,feedforward=16,layers=1,dropout=0.1";
  test::Folder folder_;
};

double number_behind(const std::string& text, const std::string& words) {
  const size_t begin = text.find(words);
  return begin == std::string::npos ? -1 : std::atof(text.c_str() + begin + words.size());
}

TEST_F(TextCommand, TrainsEvaluatesAndPredictsUnlabelledTexts) {
  for (const char* model : {kLstm, kTransformer}) {
    const std::string run = model;
    Launched trained(train(run, {}, model));
    ASSERT_EQ(trained.wait(kTextLimit).code, 0) << trained.err();
    const double tested = number_behind(trained.out(), "test accuracy ");
    EXPECT_GT(tested, 0.9) << model;
    Launched evaluated({"evaluate", at(run)});
    ASSERT_EQ(evaluated.wait(kTextLimit).code, 0) << evaluated.err();
    EXPECT_NEAR(number_behind(evaluated.out(), "accuracy "), tested, 1e-4);
    put("new.csv", "id,text\n1,w1 w2 good w3\n2,\"bad, w4\"\n3,never seen\n");
    Launched predicted({"predict", at(run), "--data", "text:" + at("new.csv"), "--output", "-"});
    ASSERT_EQ(predicted.wait(kTextLimit).code, 0) << predicted.err();
    const std::vector<std::string> lines = split(predicted.out(), '\n');
    ASSERT_GE(lines.size(), 4U) << predicted.out();
    EXPECT_THAT(lines[0], AllOf(HasSubstr("index,class,name"), Not(HasSubstr("target"))));
    EXPECT_THAT(lines[1], HasSubstr(",yes,"));
    EXPECT_THAT(lines[2], HasSubstr(",no,"));
    Launched measured({"evaluate", at(run), "--data", "text:" + at("new.csv")});
    EXPECT_EQ(measured.wait(kTextLimit).code, 2);
    EXPECT_THAT(measured.err(), HasSubstr("new.csv has the columns id, text (got \"label\")"));
  }
}

TEST_F(TextCommand, ASampleIsPredictedAloneAsInABatch) {
  Launched trained(train("run", {"--max-steps", "8"}));
  ASSERT_EQ(trained.wait(kTextLimit).code, 0) << trained.err();
  const auto predictions = [&](const char* batch_size) {
    Launched asked(
        {"predict", at("run"), "--batch-size", batch_size, "--probabilities", "--output", "-"});
    EXPECT_EQ(asked.wait(kTextLimit).code, 0) << asked.err();
    return split(asked.out(), '\n');
  };
  const auto alone = predictions("1"), together = predictions("64");
  ASSERT_EQ(alone.size(), together.size());
  for (size_t i = 1; i + 1 < alone.size(); ++i) {
    const auto one = split(alone[i], ','), other = split(together[i], ',');
    EXPECT_EQ(one[2], other[2]);
    EXPECT_NEAR(*to_double(one[3]), *to_double(other[3]), 1e-6) << alone[i];
  }
}

TEST_F(TextCommand, OtherTextsAreThoseThatAreNamedWhereverTheRunHadItsOwn) {
  fs::rename(at("rows.csv"), at("rows, old.csv"));
  Launched trained({"train",
                    "--model",
                    kLstm,
                    "--data",
                    "text:max_length=8",
                    "--data-dir",
                    at("rows, old.csv"),
                    "--max-steps",
                    "2",
                    "--output",
                    at("run")});
  ASSERT_EQ(trained.wait(kTextLimit).code, 0) << trained.err();
  put("new.csv", "text,label\none,yes\ntwo,\n");
  const std::string other = "text:" + at("new.csv");
  Launched refused({"predict", at("run"), "--data", other, "--output", "-"});
  EXPECT_EQ(refused.wait(kTextLimit).code, 1);
  EXPECT_THAT(refused.err(), HasSubstr("new.csv:3: it has no class"));
  Launched asked({"predict", at("run"), "--data", other + ",bad_rows=skip", "--output", "-"});
  ASSERT_EQ(asked.wait(kTextLimit).code, 0) << asked.err();
  EXPECT_EQ(split(asked.out(), '\n').size(), 3U) << asked.out();
  EXPECT_THAT(asked.err(), HasSubstr("1 of 2 samples in "));
}

TEST_F(TextCommand, GoesOnInTheMiddleOfAnEpochBitForBitWithOtherWorkers) {
  for (const char* model : {kLstm, kTransformer}) {
    const std::string whole = concat("whole-", model), cut = concat("cut-", model);
    Launched unbroken(train(whole, {"--workers", "0"}, model));
    ASSERT_EQ(unbroken.wait(kTextLimit).code, 0) << unbroken.err();
    Launched begun(train(cut, {"--workers", "2", "--max-steps", "16"}, model));
    ASSERT_EQ(begun.wait(kTextLimit).code, 0) << begun.err();
    Launched resumed(
        {"train", "--resume", at(cut), "--workers", "1", "--max-steps", latest_step(at(whole))});
    ASSERT_EQ(resumed.wait(kTextLimit).code, 0) << resumed.err();
    EXPECT_THAT(resumed.err(), HasSubstr("resuming after step 16"));
    EXPECT_TRUE(model_of(at(whole)) == model_of(at(cut))) << model;
  }
}

TEST_F(TextCommand, AResumeWithAnotherVocabularyIsRefusedByName) {
  Launched trained(train("run", {"--max-steps", "3"}));
  ASSERT_EQ(trained.wait(kTextLimit).code, 0) << trained.err();
  std::string table = read_file(at("rows.csv"));
  table.replace(table.find("good"), 4, "fine");
  for (int i = 0; i < 300; ++i) table += "brandnew brandnew,yes\n";
  put("rows.csv", table);
  Launched resumed({"train", "--resume", at("run")});
  EXPECT_EQ(resumed.wait(kTextLimit).code, 2);
  EXPECT_THAT(resumed.err(), HasSubstr("the vocabulary is what the run has learned by: "));
  EXPECT_THAT(resumed.err(), HasSubstr("brandnew"));
  Launched evaluated({"evaluate", at("run")});
  EXPECT_EQ(evaluated.wait(kTextLimit).code, 0) << evaluated.err();
  EXPECT_THAT(evaluated.err(), HasSubstr("other content than when the run began"));
}

// The file of the test samples and the tokenizer lie beside the texts, and move with them.
TEST_F(TextCommand, ARunGoesOnWhereItsTextsTheirTestAndTheirTokenizerHaveMoved) {
  const fs::path old = folder_.path() / "old", now = folder_.path() / "now";
  fs::create_directories(old);
  fs::rename(at("rows.csv"), old / "rows.csv");
  put("old/test.csv", "text,label\ngood w1,yes\nbad w2,no\n");
  put("old/t.json",
      R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,)"
      R"("post_processor":null,"decoder":null,"model":{"type":"WordPiece","vocab":{"[UNK]":0,"good":1,"bad":2},"unk_token":"[UNK]",)"
      R"("continuing_subword_prefix":"##","max_input_chars_per_word":100},"pre_tokenizer":{"type":"Whitespace"}})");
  const std::string more = concat(",test=", at("old/test.csv"), ",tokenizer=", at("old/t.json"));
  Launched trained({"train",
                    "--model",
                    kLstm,
                    "--data",
                    "text:" + at("old/rows.csv") + more,
                    "--batch-size",
                    "16",
                    "--epochs",
                    "4",
                    "--max-steps",
                    "4",
                    "--output",
                    at("run")});
  ASSERT_EQ(trained.wait(kTextLimit).code, 0) << trained.err();
  fs::rename(old, now);
  const auto goes_on = [&](const char* steps, const Words& flags) {
    Launched resumed(
        joined({"train", "--resume", at("run"), "--max-steps", steps, "--workers", "0"}, flags));
    EXPECT_EQ(resumed.wait(kTextLimit).code, 0) << resumed.err();
    return resumed.err();
  };
  goes_on("5", {"--data-dir", at("now/rows.csv")});
  Launched evaluated({"evaluate", at("run"), "--data-dir", at("now/rows.csv")});
  EXPECT_EQ(evaluated.wait(kTextLimit).code, 0) << evaluated.err();
  EXPECT_THAT(evaluated.err(), HasSubstr("on the 2 test samples"));

  fs::remove(now / "t.json");
  EXPECT_THAT(goes_on("6", {"--data-dir", at("now/rows.csv")}),
              HasSubstr("t.json is gone: what the run learned of it is in its checkpoint"));

  fs::rename(now / "test.csv", at("held.csv"));
  Launched refused({"train", "--resume", at("run"), "--data-dir", at("now/rows.csv")});
  EXPECT_EQ(refused.wait(kTextLimit).code, 2);
  EXPECT_THAT(refused.err(), HasSubstr("say --data again with the same parameters, and test="));
  const std::string said =
      concat("text:", at("now/rows.csv"), ",test=", at("held.csv"), ",tokenizer=", at("t.json"));
  goes_on("7", {"--data", said});
  Launched other({"train", "--resume", at("run"), "--data", said + ",max_length=9"});
  EXPECT_EQ(other.wait(kTextLimit).code, 2);
  EXPECT_THAT(other.err(), HasSubstr("of --data only its files may be said anew"));
}

TEST_F(TextCommand, TwoRanksAndAPipelineTrainToo) {
  Launched two(on_ranks(2, train("two", {"--max-steps", "8"})));
  EXPECT_EQ(two.wait(kTextLimit).code, 0) << two.err();
  Launched cut(
      train("cut",
            {"--strategy", "pipeline:micro_batches=2", "--devices", "2", "--max-steps", "8"},
            kTransformer));
  EXPECT_EQ(cut.wait(kTextLimit).code, 0) << cut.err();
}

TEST_F(TextCommand, RefusesModelsThatReadNoTokensAndTransformsOfImages) {
  Launched cnn(train("cnn", {}, "cnn"));
  EXPECT_EQ(cnn.wait(kTextLimit).code, 2);
  EXPECT_THAT(cnn.err(), HasSubstr("models that do: lstm, transformer"));
  Launched flipped(train("flipped", {"--train-transform", "random_horizontal_flip"}));
  EXPECT_EQ(flipped.wait(kTextLimit).code, 2);
  EXPECT_THAT(flipped.err(), HasSubstr("tokens"));
}

TEST_F(TextCommand, InfoShowsClassesLengthsVocabularyAndBadRows) {
  put("rows.csv", read_file(at("rows.csv")) + "only one field\n");
  Launched info({"data", "info", "text:" + at("rows.csv")});
  ASSERT_EQ(info.wait().code, 0) << info.err();
  EXPECT_THAT(info.out(), HasSubstr("all: 240 texts in 2 classes of "));
  EXPECT_THAT(info.out(), HasSubstr("| yes "));
  EXPECT_THAT(info.out(), HasSubstr("vocabulary  "));
  EXPECT_THAT(info.out(), HasSubstr("rows.csv:242: it has 1 field, the header 2"));
  Launched json({"data", "info", "text:" + at("rows.csv"), "--json"});
  ASSERT_EQ(json.wait().code, 0) << json.err();
  EXPECT_EQ(Json::parse(json.out()).at("splits")[0].at("bad").size(), 1U);
}

TEST_F(TextCommand, RowsOfNumbersTrainAndPredict) {
  std::mt19937 draw(5);
  std::string table = "id,height,color,weight,kind\n";
  for (int row = 0; row < 200; ++row) {
    const unsigned height = 100 + draw() % 100, weight = draw() % 50;
    table += concat(row,
                    ',',
                    height,
                    row % 3 == 0 ? ",red," : ",blue,",
                    weight,
                    height > 150 ? ",tall\n" : ",short\n");
  }
  put("rows.csv", table);
  const std::string rows = "csv:" + at("rows.csv") + ",target=kind";
  const auto words = [&](const std::string& data) {
    return Words{"train",
                 "--model",
                 "mlp:hidden=16",
                 "--data",
                 data,
                 "--batch-size",
                 "16",
                 "--optimizer",
                 "adam",
                 "--lr",
                 "0.01",
                 "--epochs",
                 "8",
                 "--output",
                 at("run")};
  };
  Launched refused(words(rows));
  EXPECT_EQ(refused.wait(kTextLimit).code, 2);
  EXPECT_THAT(refused.err(), HasSubstr("categorical=color"));
  Launched trained(words(rows + ",drop=id,categorical=color"));
  ASSERT_EQ(trained.wait(kTextLimit).code, 0) << trained.err();
  EXPECT_GT(number_behind(trained.out(), "test accuracy "), 0.85);
  put("new.csv", "weight,height,color\n10,195,blue\n20,104,green\n");
  Launched predicted({"predict", at("run"), "--data", "csv:" + at("new.csv"), "--output", "-"});
  ASSERT_EQ(predicted.wait(kTextLimit).code, 0) << predicted.err();
  EXPECT_THAT(predicted.out(), AllOf(HasSubstr("0,1,tall,"), HasSubstr("1,0,short,")));
}

}  // namespace
}  // namespace muster
