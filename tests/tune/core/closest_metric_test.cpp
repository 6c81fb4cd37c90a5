// The name that the hint has when the first report lacks the study's metric.
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "muster/tune/core/study_core.h"

#include "tests/support/error_of.h"
#include "tests/tune/core/core_by_hand.h"

namespace muster::tune {
namespace {

using ::testing::HasSubstr;

std::string hint_for(const std::string& metric, const std::vector<std::string>& reported) {
  StudySpec spec = spec_with(1);
  spec.metric = metric;
  StudyCore core(std::move(spec));
  start(core);
  Metrics metrics;
  for (const std::string& name : reported) metrics.emplace_back(name, 0.5);
  return test::refusal_of([&] { core.report(0, {.metrics = metrics}, 1); });
}

TEST(ClosestMetric, HasMostWordsInCommonAndOfThoseTheLastCountsFirst) {
  const std::vector<std::string> reported{"train_loss", "loss", "accuracy", "train_accuracy"};
  EXPECT_THAT(hint_for("validate_accuracy", reported), HasSubstr("have metric = \"accuracy\""));
  EXPECT_THAT(hint_for("val_acc", reported), HasSubstr("have metric = \"accuracy\""));
  EXPECT_THAT(hint_for("validate/loss", reported), HasSubstr("have metric = \"loss\""));
  EXPECT_THAT(hint_for("training.top_accuracy", reported),
              HasSubstr("have metric = \"train_accuracy\""));
}

TEST(ClosestMetric, IsASlipOfTheHandBeforeAllElse) {
  EXPECT_THAT(hint_for("acuracy", {"loss", "accuracy"}), HasSubstr("have metric = \"accuracy\""));
}

TEST(ClosestMetric, IsEachOfThemWhereNoneIsAnyCloser) {
  EXPECT_THAT(hint_for("perplexity", {"loss", "accuracy"}),
              HasSubstr("let the trial report \"perplexity\", or the study have metric = "
                        "\"loss\" or \"accuracy\""));
}

}  // namespace
}  // namespace muster::tune
