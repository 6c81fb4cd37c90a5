#include "muster/track/progress.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace muster::track {
namespace {

const ProgressEvent kFull{.phase = "validate",
                          .epoch = 1,
                          .epochs = 6,
                          .step = 120,
                          .steps = 468,
                          .metrics = {{"loss", 0.41}, {"accuracy", 0.87}},
                          .samples_per_s = 5400,
                          .eta_s = 33.1};

TEST(ProgressLine, HasTheKeysOfTheContract) {
  EXPECT_EQ(
      to_json_line(kFull),
      "{\"phase\":\"validate\",\"epoch\":1,\"epochs\":6,\"step\":120,\"steps\":468,\"loss\":0.41,"
      "\"accuracy\":0.87,\"samples_per_s\":5400.0,\"eta_s\":33.1}\n");
}

TEST(ProgressLine, ReadsBackAsTheSameEvent) {
  EXPECT_EQ(parse_progress_line(to_json_line(kFull)), kFull);
  EXPECT_EQ(parse_progress_line(to_json_line(ProgressEvent{})), ProgressEvent{});
}

TEST(ProgressLine, LeavesOutNumbersThatJsonCannotHold) {
  ProgressEvent event = kFull;
  event.metrics[0].second = std::nan("");
  event.eta_s = INFINITY;
  const auto back = parse_progress_line(to_json_line(event));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->find("loss"), nullptr);
  EXPECT_FALSE(back->eta_s);
  EXPECT_EQ(*back->find("accuracy"), 0.87);
}

TEST(ProgressLine, HasTheMetricsOfATaskInTheirOrder) {
  const ProgressEvent event{.metrics = {{"loss", 2}, {"perplexity", 7.4}, {"bleu", 0.3}}};
  const std::string line = to_json_line(event);
  EXPECT_NE(line.find(R"("loss":2.0,"metrics":{"perplexity":7.4,"bleu":0.3})"), line.npos) << line;
  EXPECT_EQ(parse_progress_line(line), event);
}

TEST(ProgressLine, PassesOverKeysOfANewerWriter) {
  EXPECT_TRUE(parse_progress_line(R"({"phase":"train","epoch":1,"learning_rate":0.1})"));
}

TEST(ProgressLine, RefusesWhatIsNotOne) {
  for (const char* line : {"",
                           "\n",
                           "null",
                           "[]",
                           "7",
                           "{}",
                           "{\"phase\":7}",
                           "{\"phase\":\"sleep\"}",
                           "{\"phase\":\"train\",\"step\":-1}",
                           "{\"phase\":\"train\",\"step\":1.5}",
                           "{\"phase\":\"train\",\"step\":18446744073709551615}",
                           "{\"phase\":\"train\",\"loss\":\"low\"}",
                           "{\"phase\":\"train\",\"metrics\":7}",
                           "{\"phase\":\"train\",\"metrics\":{\"bleu\":\"low\"}}",
                           "{\"phase\":\"train\",\"loss\":1e999}",
                           "{\"phase\":\"train\"",
                           "\xff\xfe"}) {
    EXPECT_FALSE(parse_progress_line(line)) << line;
  }
  EXPECT_FALSE(parse_progress_line(std::string(4000, '[') + std::string(4000, ']')));
}

// A writer may be killed in the middle of a line or be another program: whatever comes, nothing is
// thrown, and what is accepted is a sound event.
TEST(ProgressLine, SurvivesHundredThousandMutations) {
  std::mt19937 random(7);
  const std::string good = to_json_line(kFull);
  for (int i = 0; i < 100000; ++i) {
    std::string line = good;
    for (size_t n = 1 + random() % 4; n > 0 && !line.empty(); --n) {
      const size_t at = random() % line.size();
      switch (random() % 4) {
        case 0:
          line[at] = static_cast<char>(random());
          break;
        case 1:
          line.erase(at, 1 + random() % 9);
          break;
        case 2:
          line.insert(at, 1, "{}[],:\"-+.eE0\\"[random() % 14]);
          break;
        default:
          line.resize(at);
          break;
      }
    }
    const auto event = parse_progress_line(line);
    if (!event) continue;
    ASSERT_GE(event->step, 0) << line;
    ASSERT_GE(event->steps, 0) << line;
    for (const auto& [name, value] : event->metrics) ASSERT_TRUE(std::isfinite(value)) << line;
    ASSERT_EQ(parse_progress_line(to_json_line(*event)), event) << line;
  }
}

}  // namespace
}  // namespace muster::track
