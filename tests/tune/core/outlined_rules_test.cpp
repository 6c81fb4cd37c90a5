// A core that goes on from an outline does and says what one does that knows the whole log, also where more
// than searcher and scheduler remembers: plateaus, kept checkpoints, functions, folders that have moved.
#include <cctype>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"

#include "tests/support/seed.h"
#include "tests/tune/core/outlined_study.h"

namespace muster::tune {
namespace {

const char* const kMovedRule = "moved";
const char* const kAgainRule = "moved and back";

void add_function(StudySpec& spec, SampleFunction function) {
  std::vector<Parameter> parameters(spec.space.parameters().begin(), spec.space.parameters().end());
  parameters.push_back({.name = "made", .domain = sample_from(std::move(function))});
  spec.space = Space(std::move(parameters));
}

using RuledStudy = std::tuple<std::string, std::string, std::string>;  // rule, searcher, scheduler

class RuledOutlines : public ::testing::TestWithParam<RuledStudy> {
 protected:
  StudySpec spec() const {
    const auto& [rule, searcher, scheduler] = GetParam();
    StudySpec spec = outlined_spec(searcher, scheduler);
    spec.trial_folder = rule == kAgainRule ? "/there" : "/here";
    if (rule == "plateau") spec.plateau = {.patience = 2, .min_delta = 0.05, .grace_period = 2};
    if (rule == "keep_checkpoints") spec.keep_checkpoints = 1;
    if (rule == "function")
      add_function(spec, [](const Resolved& config) {
        return Value(config.at("lr").as_double() < 0.5 ? kNan : 2 * config.at("lr").as_double());
      });
    return spec;
  }

  /// What happened before, elsewhere: their programs say that checkpoints are below /there.
  std::vector<Event> log_before(std::mt19937& draw, double& now_s) const {
    std::vector<Event> log;
    const std::string& rule = std::get<0>(GetParam());
    if (rule != kMovedRule && rule != kAgainRule) return log;
    std::vector<std::string> places = {"/there"};
    if (rule == kAgainRule) places = {"/there", "/here"};
    for (const std::string& place : places) {
      StudySpec before = spec();
      before.trial_folder = place;
      StudyCore core = fed(before, log);
      core.note("a tuner", now_s, /*session=*/true);
      for (int step = 0; step < 40; ++step) done(core, drawn_deed(core, draw, now_s));
      for (Event& event : core.take_events()) log.push_back(std::move(event));
    }
    return log;
  }
};

TEST_P(RuledOutlines, GoOnAsTheWholeLogDoes) {
  const unsigned seed = test::seed_of_test(17);
  SCOPED_TRACE(concat("repeat with MUSTER_TEST_SEED=", seed));
  std::mt19937 draw(seed);
  int64_t taken = 0;
  for (int history = 0; history < 3; ++history) {
    double now_s = 1000;
    std::vector<Event> log = log_before(draw, now_s);
    StudyCore all = fed(spec(), log);
    if (all.has_moved()) all.note_place(now_s);
    for (Event& event : all.take_events()) log.push_back(std::move(event));
    std::optional<StudyCore> light;
    Stored stored;
    for (int step = 0; step < 120; ++step) {
      const Deed deed = drawn_deed(all, draw, now_s);
      const std::string said = done(all, deed);
      const std::vector<Event> events = all.take_events();
      log.insert(log.end(), events.begin(), events.end());
      if (light) {
        ASSERT_EQ(done(*light, deed), said) << history << ", step " << step;
        ASSERT_EQ(texts_of(light->take_events()), texts_of(events)) << history << ", step " << step;
        ASSERT_EQ(whole(*light), whole(all)) << history << ", step " << step;
        ASSERT_EQ(light->outline(), all.outline()) << history << ", step " << step;
        ASSERT_THAT(light->take_needless_checkpoints(), ::testing::IsEmpty());
      }
      if (draw() % 5 != 0 || !stored.take(all)) continue;
      const StudyCore again = fed(spec(), log);
      ASSERT_EQ(calls_of(again), joined(stored.pieces)) << "live and fed hear the same";
      ASSERT_EQ(whole(again), whole(all));
      light.emplace(spec());
      ASSERT_TRUE(light->take_outline(stored.outline, stored.event, stored.pieces));
      light->keep_calls(stored.event);
      ++taken;
    }
  }
  EXPECT_GT(taken, 0);
}

std::string name_of_ruled(const ::testing::TestParamInfo<RuledStudy>& info) {
  const auto& [rule, searcher, scheduler] = info.param;
  std::string name = concat(rule, '_', searcher, '_', scheduler);
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    OfEachRule,
    RuledOutlines,
    ::testing::Combine(::testing::Values("plateau", "keep_checkpoints", kMovedRule, kAgainRule),
                       ::testing::Values("random", "tpe:startup=3"),
                       ::testing::Values("fifo",
                                         "asha:variant=promotion,max_t=8,reduction_factor=2",
                                         "pbt:perturbation_interval=2")),
    name_of_ruled);

INSTANTIATE_TEST_SUITE_P(
    OfFunctions,
    RuledOutlines,
    ::testing::Combine(::testing::Values("function"),
                       ::testing::Values("random"),
                       ::testing::Values("fifo",
                                         "asha:variant=promotion,max_t=8,reduction_factor=2")),
    name_of_ruled);

TEST(RuledOutline, WhatAFunctionSaidTheFirstTimeIsTheTrials) {
  int64_t calls = 0;
  StudySpec spec = outlined_spec("random");
  add_function(spec, [&](const Resolved&) { return Value(++calls); });
  StudyCore all(spec);
  play(all, 3);
  StudyCore light(spec);
  ASSERT_TRUE(light.take_outline(all.outline().value(), all.last_event()));
  EXPECT_EQ(light.trials()[3].values, all.trials()[3].values) << "it runs";
  EXPECT_EQ(light.trials()[2].values, all.trials()[2].values) << "the best one";
}

TEST(RuledOutline, OfAnotherPlaceIsNotTaken) {
  StudySpec spec = outlined_spec("random");
  spec.trial_folder = "/there";
  StudyCore core(spec);
  core.note("a tuner", 1, /*session=*/true);
  play(core, 3);
  const std::string outline = core.outline().value();
  StudySpec moved = spec;
  moved.trial_folder = "/here";
  EXPECT_FALSE(StudyCore(moved).take_outline(outline, core.last_event())) << "paths are others'";
  EXPECT_TRUE(StudyCore(spec).take_outline(outline, core.last_event()));
}

TEST(RuledOutline, OfACoreThatDoesNotKnowAllTrialsNoCheckpointIsNeedless) {
  StudySpec spec = outlined_spec("random");
  spec.keep_checkpoints = 1;
  StudyCore all(spec);
  start(all);
  all.report(0, loss(0.5, 1, "/there/0/1"), 1);
  all.discard_events();
  StudyCore light(spec);
  ASSERT_TRUE(light.take_outline(all.outline().value(), all.last_event()));
  for (StudyCore* core : {&all, &light}) core->report(0, loss(0.5, 2, "/there/0/2"), 2);
  EXPECT_THAT(all.take_needless_checkpoints(), ::testing::ElementsAre("/there/0/1"));
  EXPECT_THAT(light.take_needless_checkpoints(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace muster::tune
