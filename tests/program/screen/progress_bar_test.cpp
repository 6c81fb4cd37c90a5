#include "muster/program/screen/progress_bar.h"

#include <gtest/gtest.h>

#include "muster/base/text.h"

namespace muster::program {
namespace {

track::ProgressEvent half_way() {
  return {.phase = "train",
          .epoch = 2,
          .epochs = 6,
          .step = 234,
          .steps = 468,
          .metrics = {{"loss", 0.41234}, {"accuracy", 0.871}},
          .samples_per_s = 5400,
          .eta_s = 72};
}

TEST(ProgressBar, ShowsAllOnAWideTerminal) {
  EXPECT_EQ(render_bar(half_way(), 100, false),
            "train 2/6 ━━━━━━━━━━━━━━╸──────────────  50% · loss 0.4123 · acc 0.871 · 5.4k "
            "samples/s · 1m12s left");
}

TEST(ProgressBar, ShowsAllFactsOfALongRunAtEightyColumns) {
  track::ProgressEvent event = half_way();
  event.epoch = 12;
  event.epochs = 20;
  const std::string bar = render_bar(event, 79, false);
  for (const char* fact : {"loss", "acc", "samples/s", "left"})
    EXPECT_NE(bar.find(fact), std::string::npos) << fact;
}

TEST(ProgressBar, GivesUpTheRateFirstAndTheTimeLeftLast) {
  EXPECT_EQ(render_bar(half_way(), 70, false),
            "train 2/6 ━━━━━━━━────────  50% · loss 0.4123 · acc 0.871 · 1m12s left");
}

TEST(ProgressBar, FitsEveryWidthWithAndWithoutColour) {
  track::ProgressEvent longest{.phase = "validate",
                               .epoch = 123456,
                               .epochs = 999999,
                               .step = 9999999,
                               .steps = 10000000,
                               .metrics = {{"loss", 123456.789}, {"accuracy", 1}},
                               .samples_per_s = 1e12,
                               .eta_s = 1e9};
  for (const auto& event : {half_way(), longest, track::ProgressEvent{}}) {
    for (size_t width = 1; width <= 200; ++width) {
      EXPECT_LE(display_width(render_bar(event, width, false)), width) << width;
      EXPECT_EQ(display_width(render_bar(event, width, true)),
                display_width(render_bar(event, width, false)));
    }
  }
}

TEST(ProgressBar, SaysAHundredPercentOnlyAtTheEnd) {
  auto event = half_way();
  event.step = 467;
  EXPECT_NE(render_bar(event, 80, false).find(" 99%"), std::string::npos);
  event.step = 468;
  EXPECT_NE(render_bar(event, 80, false).find(" 100%"), std::string::npos);
}

TEST(ProgressBar, CountsStepsIfTheirNumberIsNotKnown) {
  EXPECT_EQ(render_bar({.phase = "train", .step = 7}, 80, false), "train step 7");
}

TEST(PlainProgress, IsOneSentence) {
  EXPECT_EQ(render_plain(half_way()),
            "train epoch 2/6: 50%, loss 0.4123, accuracy 0.871, 5400 samples/s, 1m12s left");
}

TEST(PlainProgress, ComesForEachTenthOfTheRunAndEachEndOfAPhase) {
  PlainPace pace;
  int lines = 0;
  for (int64_t epoch = 1; epoch <= 2; ++epoch) {
    for (int64_t step = 1; step <= 1000; ++step) {
      lines +=
          pace.wants({.phase = "train", .epoch = epoch, .epochs = 2, .step = step, .steps = 1000});
    }
    lines += pace.wants({.phase = "validate", .epoch = epoch, .epochs = 2, .step = 1, .steps = 2});
    lines += pace.wants({.phase = "validate", .epoch = epoch, .epochs = 2, .step = 2, .steps = 2});
  }
  EXPECT_EQ(lines, 12);
}

}  // namespace
}  // namespace muster::program
