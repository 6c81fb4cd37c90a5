#include "muster/track/metrics_reader.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/track/metrics_log.h"

#include "tests/support/folder.h"

namespace muster::track {
namespace {

using testing::HasSubstr;

TEST(MetricsReader, ReadsWhatTheLogWroteToTheLastBit) {
  const test::Folder folder;
  {
    MetricsLog log(folder.path(), -1, {"loss", "accuracy", "lr"});
    log.write({50, 1, "train", {{"loss", 0.1 + 0.2}, {"lr", 5e-324}}});
    log.write({60, 2, "validate", {{"loss", NAN}, {"accuracy", 1}}});
    log.write({61, 2, "test", {{"loss", -INFINITY}}});
  }
  const auto rows = read_metrics(folder.path());
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].step, 50);
  EXPECT_EQ(rows[0].phase, "train");
  EXPECT_EQ(*rows[0].find("loss"), 0.1 + 0.2);
  EXPECT_EQ(*rows[0].find("lr"), 5e-324);
  EXPECT_EQ(rows[0].find("accuracy"), nullptr);
  EXPECT_EQ(rows[1].epoch, 2);
  // JSON has neither NaN nor infinity: null, so that any reader takes the line.
  EXPECT_TRUE(std::isnan(*rows[1].find("loss")));
  EXPECT_TRUE(std::isnan(*rows[2].find("loss")));
  EXPECT_THAT(read_file(folder.path() / "metrics.jsonl"), HasSubstr("\"loss\":null"));
  EXPECT_THAT(read_file(folder.path() / "metrics.csv"), HasSubstr("validate,nan,1"));
  EXPECT_THAT(read_file(folder.path() / "metrics.csv"), HasSubstr("test,-inf,"));
}

TEST(MetricsReader, ReadsTheTextsThatOlderRunsWroteForNanAndInfinity) {
  const auto rows = parse_metrics(
      "{\"step\":1,\"epoch\":1,\"phase\":\"train\",\"loss\":\"-nan\",\"lr\":\"inf\"}\n", "file");
  EXPECT_TRUE(std::isnan(*rows.at(0).find("loss")));
  EXPECT_EQ(*rows.at(0).find("lr"), INFINITY);
}

TEST(MetricsReader, TakesTheColumnsOfANewerWriterAlong) {
  const auto rows = parse_metrics(
      "{\"step\":1,\"epoch\":1,\"phase\":\"warm-up\",\"grad_norm\":2.5,\"note\":\"x\",\"lr\":7,"
      "\"top\":[1],\"done\":true,\"count\":3}\n",
      "file");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(
      rows[0].values,
      (std::vector<std::pair<std::string, double>>{{"grad_norm", 2.5}, {"lr", 7}, {"count", 3}}));
}

TEST(MetricsReader, DropsALastLineThatWasCut) {
  const std::string whole = "{\"step\":1,\"epoch\":1,\"phase\":\"train\",\"loss\":2}\n";
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(parse_metrics(whole + whole.substr(0, size), "file").size(), 1u) << size;
  }
  EXPECT_EQ(parse_metrics(whole + whole, "file").size(), 2u);
  EXPECT_EQ(parse_metrics("", "file").size(), 0u);
}

TEST(MetricsReader, RefusesAnyOtherFaultByLine) {
  const std::string good = "{\"step\":1,\"epoch\":1,\"phase\":\"train\"}\n";
  for (const char* bad : {"",
                          "{",
                          "[]",
                          "7",
                          "{}",
                          "{\"step\":-1,\"epoch\":1,\"phase\":\"train\"}",
                          "{\"step\":1.5,\"epoch\":1,\"phase\":\"train\"}",
                          "{\"step\":18446744073709551615,\"epoch\":1,\"phase\":\"train\"}",
                          "{\"step\":1,\"phase\":\"train\"}",
                          "{\"step\":1,\"epoch\":1,\"phase\":\"\"}",
                          "{\"step\":1,\"epoch\":1,\"phase\":3}",
                          "{\"step\":1,\"epoch\":1,\"phase\":\"train\",\"loss\":\"low\"}",
                          "{\"step\":1,\"epoch\":1,\"phase\":\"train\",\"loss\":1e999}",
                          "{\"step\":1,\"epoch\":1,\"phase\":\"train\"}}",
                          "\xff"}) {
    try {
      parse_metrics(good + bad + "\n" + good, "run/metrics.jsonl");
      ADD_FAILURE() << "accepted " << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_THAT(error.what(), HasSubstr("run/metrics.jsonl, line 2"));
    }
  }
}

// The file may come from anywhere: whatever comes, there are sound rows or one clear error.
TEST(MetricsReader, SurvivesFiftyThousandMutations) {
  std::mt19937 random(5);
  const std::string good =
      "{\"step\":1,\"epoch\":1,\"phase\":\"train\",\"loss\":2.5,\"lr\":\"nan\",\"x\":-1e-3}\n"
      "{\"step\":2,\"epoch\":1,\"phase\":\"validate\",\"loss\":\"inf\"}\n";
  size_t accepted = 0;
  for (int i = 0; i < 50000; ++i) {
    std::string text = good;
    for (size_t n = 1 + random() % 3; n > 0 && !text.empty(); --n) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 9);
          break;
        case 2:
          text.insert(at, 1, "{}[],:\"-+.eE0\\\n"[random() % 15]);
          break;
        default:
          text.resize(at);
          break;
      }
    }
    try {
      for (const MetricsRow& row : parse_metrics(text, "file")) {
        ASSERT_GE(row.step, 0);
        ASSERT_GE(row.epoch, 0);
        ASSERT_FALSE(row.phase.empty());
      }
      ++accepted;
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kUsage) << text;
    }
  }
  EXPECT_GT(accepted, 1000u);
}

}  // namespace
}  // namespace muster::track
