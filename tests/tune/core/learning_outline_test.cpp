// A core that goes on from an outline and the calls beside the log does and says what one does that knows
// the whole log, whatever searcher and scheduler have learnt.
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

using Strategies = std::tuple<std::string, std::string>;  // searcher, scheduler

class LearningOutlines : public ::testing::TestWithParam<Strategies> {
 protected:
  StudySpec spec() const {
    StudySpec spec = outlined_spec(std::get<0>(GetParam()), std::get<1>(GetParam()));
    spec.num_samples = 60;
    return spec;
  }
};

TEST_P(LearningOutlines, GoOnAsTheWholeLogDoes) {
  const unsigned seed = test::seed_of_test(13);
  SCOPED_TRACE(concat("repeat with MUSTER_TEST_SEED=", seed));
  std::mt19937 draw(seed);
  int64_t taken = 0;
  for (int history = 0; history < 2; ++history) {
    StudyCore all(spec());
    all.keep_calls();
    std::vector<Event> log;
    std::optional<StudyCore> light;
    Stored stored;
    double now_s = 1000;
    for (int step = 0; step < 100; ++step) {
      now_s += static_cast<double>(draw() % 8);
      const Deed deed{.what = static_cast<int>(draw() % 18),
                      .trial = some_trial(all, draw),
                      .now_s = now_s,
                      .draw = static_cast<unsigned>(draw() % 1000)};
      const std::string said = done(all, deed);
      const std::vector<Event> events = all.take_events();
      log.insert(log.end(), events.begin(), events.end());
      if (light) {
        ASSERT_EQ(done(*light, deed), said) << history << ", step " << step;
        ASSERT_EQ(texts_of(light->take_events()), texts_of(events)) << history << ", step " << step;
        ASSERT_EQ(whole(*light), whole(all)) << history << ", step " << step;
        ASSERT_EQ(light->outline(), all.outline()) << history << ", step " << step;
        ASSERT_EQ(light->scheduler_status(), all.scheduler_status()) << history << ", " << step;
      }
      if (draw() % 5 != 0 || !stored.take(all)) continue;
      ASSERT_EQ(calls_of(fed(spec(), log)), joined(stored.pieces)) << "live and fed hear the same";
      light.emplace(spec());
      ASSERT_TRUE(light->take_outline(stored.outline, stored.event, stored.pieces));
      light->keep_calls(stored.event);
      ++taken;
    }
    if (light) {
      const CallPiece last = stored.pieces.empty() ? CallPiece{} : stored.pieces.back();
      const auto of_light = light->calls_behind(last), of_all = all.calls_behind(last);
      ASSERT_EQ(of_light.has_value(), of_all.has_value());
      if (of_all) {
        EXPECT_EQ(of_light->calls, of_all->calls);
        EXPECT_EQ(of_light->chain, of_all->chain);
      }
    }
  }
  EXPECT_GT(taken, 0);
}

std::string name_of_strategies(const ::testing::TestParamInfo<Strategies>& info) {
  std::string name = std::get<0>(info.param) + "_" + std::get<1>(info.param);
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    OfEachSearcherAndScheduler,
    LearningOutlines,
    ::testing::Combine(::testing::Values("random",
                                         "grid",
                                         "tpe:startup=3",
                                         "tpe:startup=3,max_concurrent=3,batch=true",
                                         "gp:startup=3,samples=16",
                                         "cma_es:population=4",
                                         "nsga2:population=4",
                                         "bohb",
                                         "random_then_grid:startup=4,top=1",
                                         "auto:samples=16"),
                       ::testing::Values("fifo",
                                         "asha:max_t=8,reduction_factor=2",
                                         "asha:variant=promotion,max_t=8,reduction_factor=2",
                                         "hyperband:max_t=9",
                                         "median:min_samples_required=2,hard_stop=false",
                                         "median:rule=optuna,n_startup_trials=2",
                                         "pbt:perturbation_interval=2",
                                         "pbt:perturbation_interval=2,synch=true")),
    name_of_strategies);

TEST(Outline, OfSeveralObjectivesHasTheirFront) {
  StudySpec spec = outlined_spec("nsga2:population=4");
  spec.stop.clear();
  spec.goals.objectives = {{"loss", Mode::kMin}, {"step_s", Mode::kMin}};
  spec.goals.constraints = {{"loss", true, 0.9}};
  StudyCore all(spec);
  all.keep_calls();
  const auto run = [](StudyCore& core, double loss, double step_s, double now_s) {
    const int64_t number = start(core, now_s);
    core.report(number, {.metrics = {{"loss", loss}, {"step_s", step_s}}}, now_s);
    core.ended(number, Failure::kNone, "", now_s);
  };
  const std::vector<std::pair<double, double>> results = {
      {0.5, 0.5}, {0.25, 0.75}, {0.75, 0.75}, {0.125, 0.5}, {0.95, 0.1}, {0.5, 0.25}};
  for (const auto& [loss, step_s] : results) run(all, loss, step_s, 1);
  all.discard_events();
  Stored stored;
  ASSERT_TRUE(stored.take(all));
  StudyCore light(spec);
  ASSERT_TRUE(light.take_outline(stored.outline, stored.event, stored.pieces));
  const auto front_of = [](const StudyCore& core) {
    return std::vector<int64_t>(core.front().begin(), core.front().end());
  };
  EXPECT_EQ(front_of(all), (std::vector<int64_t>{3, 5})) << "trial 4 violates the constraint";
  EXPECT_EQ(front_of(light), front_of(all));
  for (StudyCore* core : {&all, &light})
    for (int i = 0; i < 3; ++i) run(*core, 0.25 - 0.01 * i, 0.125, 2);
  EXPECT_EQ(front_of(light), front_of(all));
  EXPECT_EQ(texts_of(light.take_events()), texts_of(all.take_events()));
}

TEST(Outline, OfASearcherThatLearnsIsTakenByWhoSuggestsOnlyWithItsCalls) {
  StudySpec spec = outlined_spec("tpe");
  StudyCore core(spec);
  core.keep_calls();
  play(core, 5);
  Stored stored;
  ASSERT_TRUE(stored.take(core));
  const std::string outline = stored.outline;
  StudyCore asks(spec), tells(spec, /*suggests=*/false);
  EXPECT_TRUE(asks.needs_calls());
  EXPECT_FALSE(tells.needs_calls());
  EXPECT_FALSE(asks.take_outline(outline, core.last_event()));
  std::vector<CallPiece> damaged = stored.pieces;
  damaged[0].calls[0] = 'x';
  EXPECT_FALSE(asks.is_whole(damaged));
  EXPECT_FALSE(asks.take_outline(outline, core.last_event(), damaged));
  StudySpec other = spec;
  other.failures[1].from_checkpoint = !other.failures[1].from_checkpoint;
  EXPECT_FALSE(StudyCore(other).is_whole(stored.pieces)) << "a replay would tell other calls";
  EXPECT_TRUE(asks.is_whole(stored.pieces));
  EXPECT_TRUE(asks.take_outline(outline, core.last_event(), stored.pieces));
  EXPECT_TRUE(tells.take_outline(outline, core.last_event()));
  const auto goes_on = [](StudyCore& one) {
    one.report(5, loss(0.25), 6);
    one.ended(5, Failure::kNone, "", 7);
    return texts_of(one.take_events());
  };
  EXPECT_EQ(goes_on(tells), goes_on(core));
}

}  // namespace
}  // namespace muster::tune
