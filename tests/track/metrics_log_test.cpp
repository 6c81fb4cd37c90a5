#include "muster/track/metrics_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"

#include "tests/support/folder.h"

namespace muster::track {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string json_row(int64_t step, const std::string& phase = "train") {
  return to_json_line({step, 1, phase, {{"loss", 0.5}}});
}

const std::vector<std::string> kColumns{"loss", "lr"};

TEST(MetricsRowsUntil, KeepsWhatTheCheckpointHoldsAndDropsWhatIsMadeAgain) {
  const std::string first = json_row(10) + json_row(20) + json_row(20, "validate");
  const KeptRows kept =
      metrics_rows_until(first + json_row(30) + json_row(30, "test") + "{\"step\":4", 20, "m");
  EXPECT_EQ(kept.text, first);
  EXPECT_THAT(kept.faults, IsEmpty());
  EXPECT_FALSE(kept.has_dropped_end);
}

TEST(MetricsRowsUntil, ATestBehindTheVeryCheckpointIsDroppedAndSaid) {
  const KeptRows kept = metrics_rows_until(json_row(20) + json_row(20, "test"), 20, "m");
  EXPECT_EQ(kept.text, json_row(20));
  EXPECT_TRUE(kept.has_dropped_end);
}

TEST(MetricsRowsUntil, TheRowOfAnEndGoesWhereTheRunGoesOn) {
  const std::string first = json_row(10) + json_row(10, "validate");
  const std::string before = first + json_row(20, "validate");
  const std::string text = before + json_row(20) + json_row(20, "test");
  const KeptRows all = metrics_rows_until(text, 20, "m");
  EXPECT_EQ(all.text, before + json_row(20));
  EXPECT_TRUE(all.has_train_row);
  const KeptRows kept = metrics_rows_until(text, 20, "m", {.train = true});
  EXPECT_EQ(kept.text, before);
  EXPECT_THAT(kept.faults, IsEmpty());
  EXPECT_TRUE(kept.has_dropped_end);
  EXPECT_FALSE(kept.has_train_row);
  EXPECT_EQ(metrics_rows_until(text, 20, "m", {.validate = true}).text, first + json_row(20));
  EXPECT_EQ(metrics_rows_until(text, 20, "m", {.train = true, .validate = true}).text, first);
  EXPECT_EQ(metrics_rows_until(before + json_row(30), 30, "m", {.train = true}).text, before);
  EXPECT_FALSE(metrics_rows_until(before + json_row(30), 40, "m").has_train_row);
  const std::string header = csv_header(kColumns), row = "20,1,train,0.5\n";
  EXPECT_EQ(csv_rows_until(header + row, 20, "m").text, row);
  EXPECT_EQ(csv_rows_until(header + row, 20, "m", {.train = true}).text, "");
}

TEST(MetricsRowsUntil, LinesThatHoldNoRowAreNamedByNumber) {
  for (const char* bad : {"",
                          "{\"step\":3,\"epoch\":1}",
                          "{\"step\":3,\"epoch\":1,\"phase\":\"train\",\"loss\":\"x\"}",
                          "{\"step\":-3,\"epoch\":1,\"phase\":\"train\"}",
                          "{\"step\":3,\"epoch\":1,\"phase\":\"train\"",
                          "[3]",
                          "garbage"}) {
    const KeptRows kept = metrics_rows_until(json_row(10) + bad + '\n' + json_row(20), 20, "m");
    EXPECT_EQ(kept.text, json_row(10) + json_row(20)) << bad;
    EXPECT_THAT(kept.faults, ElementsAre(HasSubstr("m, line 2: "))) << bad;
  }
}

// A digit that changed must not make a row one of those that are made again.
TEST(MetricsRowsUntil, ARowBeyondTheCheckpointBeforeOneWithinItIsAFault) {
  const KeptRows kept =
      metrics_rows_until(json_row(10) + json_row(95) + json_row(20) + json_row(30), 20, "m");
  EXPECT_EQ(kept.text, json_row(10) + json_row(20));
  EXPECT_THAT(kept.faults, ElementsAre(HasSubstr("m, line 2: its step 95 stands before step 20")));
}

TEST(CsvRowsUntil, NamesLinesThatHoldNoRow) {
  const std::string row = to_csv_line({10, 1, "train", {{"loss", 0.5}}}, kColumns);
  for (const std::string bad :
       {"10", "x,1,train,,", "10,1,,,", "10,1,train,abc", "10,1,train,1,2,3", ""}) {
    const KeptRows kept = csv_rows_until(csv_header(kColumns) + row + bad + '\n' + row, 20, "m");
    EXPECT_EQ(kept.text, row + row) << bad;
    EXPECT_THAT(kept.faults, ElementsAre(HasSubstr("m, line 3: "))) << bad;
  }
  EXPECT_THAT(csv_rows_until("step;epoch\n" + row, 20, "m").faults,
              ElementsAre(HasSubstr("m, line 1: ")));
}

TEST(MetricsLog, KeepsADamagedFileBesideTheNewOneAndSaysSo) {
  const test::Folder folder;
  const fs::path file = folder.path() / "metrics.jsonl";
  {
    MetricsLog log(folder.path(), -1, kColumns);
    for (const int64_t step : {10, 20, 30}) log.write({.step = step, .epoch = 1, .phase = "train"});
    EXPECT_THAT(log.damage(), IsEmpty());
  }
  std::string text = read_file(file);
  text[text.find("epoch")] = 'E';
  write_file_atomic(file, text);
  const MetricsLog log(folder.path(), 20, kColumns);
  EXPECT_THAT(log.damage(),
              ElementsAre(AllOf(HasSubstr("metrics.jsonl, line 1: \"epoch\""),
                                HasSubstr(file.string() + ".damaged"))));
  EXPECT_EQ(read_file(file.string() + ".damaged"), text);
  EXPECT_THAT(read_file(file), HasSubstr("\"step\":20"));
  EXPECT_THAT(read_file(file), ::testing::Not(HasSubstr("\"step\":30")));
  EXPECT_THAT(read_file(folder.path() / "metrics.csv"), HasSubstr("\n10,1,train"));
}

// An older version of the task, or of Muster, had other columns: none moves, none is lost.
TEST(MetricsLog, AFileKeepsItsColumnsAndGetsTheNewOnesBehindThem) {
  const test::Folder folder;
  {
    MetricsLog log(folder.path(), -1, {"accuracy", "loss"});
    log.write({10, 1, "train", {{"loss", 0.5}, {"accuracy", 0.25}}});
  }
  MetricsLog log(folder.path(), 10, {"loss", "f1"});
  log.write({20, 1, "train", {{"loss", 2}, {"f1", 3}}});
  EXPECT_EQ(read_file(folder.path() / "metrics.csv"),
            "step,epoch,phase,accuracy,loss,f1\n10,1,train,0.25,0.5\n20,1,train,,2,3\n");
  EXPECT_THAT(log.damage(), IsEmpty());
}

TEST(MetricsLog, EarlierCopiesOfADamagedFileStay) {
  const test::Folder folder;
  const fs::path file = folder.path() / "metrics.jsonl";
  for (const char* text : {"one\n", "two\n"}) {
    write_file_atomic(file, text);
    const MetricsLog log(folder.path(), 5, kColumns);
  }
  EXPECT_EQ(read_file(file.string() + ".damaged"), "one\n");
  EXPECT_EQ(read_file(file.string() + ".damaged-2"), "two\n");
}

}  // namespace
}  // namespace muster::track
