// A core that goes on from an outline does and says what one does that knows the whole log.
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"

#include "tests/support/blows.h"
#include "tests/support/seed.h"
#include "tests/tune/core/outlined_study.h"

namespace muster::tune {
namespace {

class Outlines : public ::testing::TestWithParam<std::string> {};

TEST_P(Outlines, GoOnAsTheWholeLogDoes) {
  const unsigned seed = test::seed_of_test(11);
  SCOPED_TRACE(concat("repeat with MUSTER_TEST_SEED=", seed));
  std::mt19937 draw(seed);
  int64_t taken = 0;
  const int histories = test::count_of_blows(60);
  for (int history = 0; history < histories; ++history) {
    const StudySpec spec = outlined_spec(GetParam());
    StudyCore all(spec);
    std::optional<StudyCore> light;
    double now_s = 1000;
    for (int step = 0; step < 120; ++step) {
      now_s += static_cast<double>(draw() % 8);
      const Deed deed{.what = static_cast<int>(draw() % 18),
                      .trial = some_trial(all, draw),
                      .now_s = now_s,
                      .draw = static_cast<unsigned>(draw() % 1000)};
      const std::string said = done(all, deed);
      const std::vector<Event> events = all.take_events();
      if (light) {
        ASSERT_EQ(done(*light, deed), said) << history << ", step " << step;
        ASSERT_EQ(texts_of(light->take_events()), texts_of(events)) << history << ", step " << step;
        ASSERT_EQ(whole(*light), whole(all)) << history << ", step " << step;
        ASSERT_EQ(light->outline(), all.outline()) << history << ", step " << step;
      }
      const auto outline = all.outline();
      if (!outline || draw() % 5 != 0) continue;
      light.emplace(spec);
      ASSERT_TRUE(light->take_outline(*outline, all.last_event())) << *outline;
      ++taken;
    }
  }
  EXPECT_GT(taken, histories / 2);
}

INSTANTIATE_TEST_SUITE_P(OfSearchersWithoutHistory, Outlines, ::testing::Values("random", "sobol"));

TEST(Outline, HoldsOnlyWhatIsNotOverAndTheBest) {
  StudyCore few(outlined_spec("random")), many(outlined_spec("random"));
  play(few, 10);
  play(many, 40);
  EXPECT_LT(many.outline()->size(), few.outline()->size() + 200) << "but for digits of numbers";
  StudyCore light(outlined_spec("random"));
  ASSERT_TRUE(light.take_outline(*many.outline(), many.last_event()));
  ASSERT_EQ(light.trials().size(), 41U);
  EXPECT_FALSE(light.knows(0));
  EXPECT_TRUE(light.knows(39)) << "the best one";
  EXPECT_TRUE(light.knows(40)) << "it runs";
  EXPECT_TRUE(is_over(light.trials()[0].state));
  EXPECT_EQ(start(light, 5), 41);
  EXPECT_TRUE(light.knows(41));
  EXPECT_TRUE(many.knows(0));
}

TEST(Outline, GoesOnWithTheEventsBehindIt) {
  StudyCore all(outlined_spec("random")), light(outlined_spec("random"));
  play(all, 10);
  const std::string outline = *all.outline();
  const int64_t event = all.last_event();
  all.report(10, loss(0.5), 6);
  all.ended(10, Failure::kCrash, "", 7);
  start(all, 20);
  ASSERT_TRUE(light.take_outline(outline, event));
  for (const Event& event : all.take_events()) light.replay(event);
  EXPECT_EQ(light.outline(), all.outline());
  EXPECT_EQ(whole(light), whole(all));
}

/// A scheduler that does not say that its donors are never over.
class HasOldDonors final : public Scheduler {
 public:
  Decision on_report(int64_t /*trial*/, int64_t /*t*/, double /*score*/) override { return {}; }
  std::string status() const override { return ""; }
};

TEST(Outline, ThereIsNoneWhereMoreIsRemembered) {
  StudySpec donors = outlined_spec("random");
  EXPECT_TRUE(StudyCore(donors).outline());
  donors.own_scheduler = [](const SchedulerContext&) { return std::make_unique<HasOldDonors>(); };
  EXPECT_FALSE(StudyCore(donors).outline()) << "the checkpoint of one that is over may be wanted";
  StudyCore repeats(outlined_spec("random"));
  start(repeats);
  repeats.report(0, loss(0.5), 1);
  repeats.ended(0, Failure::kCrash, "", 2);
  start(repeats, 9);
  repeats.discard_events();
  EXPECT_TRUE(repeats.outline());
  repeats.report(0, loss(0.5), 10);
  EXPECT_FALSE(repeats.outline()) << "how far it has come again, no log knows";
}

TEST(Outline, OfOtherRulesOrDamagedIsNotTaken) {
  const StudySpec spec = outlined_spec("random");
  StudyCore core(spec);
  play(core, 5);
  const std::string outline = *core.outline();
  const auto is_taken = [&](const StudySpec& by, const std::string& text, int64_t before = 0) {
    StudyCore fresh(by);
    const bool taken = fresh.take_outline(text, core.last_event() - before);
    if (!taken) {
      EXPECT_EQ(fresh.trials().size(), 0U);
      EXPECT_EQ(start(fresh), 0);
    }
    return taken;
  };
  EXPECT_TRUE(is_taken(spec, outline));
  EXPECT_FALSE(is_taken(spec, outline, 1)) << "it is of another moment";
  StudySpec other = spec;
  other.ask_lease_s = 41;
  EXPECT_FALSE(is_taken(other, outline));
  other = spec;
  other.trial_folder = "/elsewhere";
  EXPECT_FALSE(is_taken(other, outline));
  other = spec;
  other.seed = 8;
  EXPECT_FALSE(is_taken(other, outline));
  for (const char* text : {"", " ", "x", "12 {}", "0 [1]"}) EXPECT_FALSE(is_taken(spec, text));
  for (size_t at = 0; at < outline.size(); at += 7) {
    std::string damaged = outline;
    damaged[at] = damaged[at] == '1' ? '2' : '1';
    EXPECT_FALSE(is_taken(spec, damaged)) << "byte " << at;
  }
  EXPECT_FALSE(core.take_outline(outline, core.last_event())) << "it is not new";
}

}  // namespace
}  // namespace muster::tune
