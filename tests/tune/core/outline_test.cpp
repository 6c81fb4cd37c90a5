// A core that goes on from an outline does and says what one does that knows the whole log.
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"

#include "tests/support/blows.h"
#include "tests/support/error_of.h"
#include "tests/support/seed.h"
#include "tests/tune/core/core_by_hand.h"

namespace muster::tune {
namespace {

StudySpec outlined_spec(const std::string& searcher) {
  StudySpec spec = spec_with(-1);
  spec.space = Space(
      std::vector<Parameter>{{.name = "lr", .domain = quniform(0.1, 1, 0.1)},
                             {.name = "kind", .domain = choice({"a", "b"})},
                             {.name = "beta", .domain = randint(1, 9), .when = "kind == 'a'"}});
  spec.searcher = searcher;
  if (searcher == "grid") spec.num_samples = 20;
  spec.stop = {{.metric = "loss", .comparison = StopCriterion::Comparison::kLess, .bound = 0.02}};
  spec.give_up_after = 12;
  spec.ask_lease_s = 40;
  for (FailurePolicy& policy : spec.failures) policy = {.retries = 1, .backoff_s = 3};
  return spec;
}

std::vector<std::string> texts_of(const std::vector<Event>& events) {
  std::vector<std::string> texts;
  for (const Event& event : events)
    texts.push_back(concat(event.id,
                           ' ',
                           shortest(event.time_s),
                           ' ',
                           event.trial,
                           ' ',
                           kind_of(event),
                           ' ',
                           payload_text(event)));
  return texts;
}

/// What somebody does to a study; one draw of each number, so that two cores get the same.
struct Deed {
  int what;
  int64_t trial;
  double now_s;
  unsigned draw;
};

void start_next(StudyCore& core, const Deed& deed, std::string& said) {
  const auto next = core.next(deed.now_s, /*asked=*/deed.draw % 2 == 0);
  said = concat("next ", static_cast<int>(next.kind), ' ', next.trial, ' ', next.wait_until_s);
}

void report(StudyCore& core, const Deed& deed, std::string& said) {
  const double losses[] = {0.5, 0.25, 0.01, 0.75, kNan};
  Report report = loss(losses[deed.draw % 5]);
  // Half of the trials say their step; the others are counted, and repeat what an attempt before said.
  const bool has_step = deed.trial >= 0 && deed.trial % 2 == 0;
  if (has_step) report.step = core.trials()[static_cast<size_t>(deed.trial)].last_t + deed.draw % 4;
  if (deed.draw % 4 == 0) report.checkpoint = concat("/there/", deed.trial, '/', deed.draw % 7);
  if (deed.draw % 6 == 0) report.sequence = deed.draw % 5;
  const Decision decision = core.report(deed.trial, report, deed.now_s);
  said = concat(name_of(decision.action), ' ', decision.reason);
}

void end(StudyCore& core, const Deed& deed) {
  const Failure failures[] = {Failure::kNone,
                              Failure::kNone,
                              Failure::kCrash,
                              Failure::kOutOfMemory,
                              Failure::kInterrupted};
  core.ended(deed.trial, failures[deed.draw % 5], "so it was", deed.now_s);
}

void learn(StudyCore& core, const Deed& deed) {
  OutsideTrial trial{.number = static_cast<int64_t>(deed.draw % 20),
                     .state = TrialState::kComplete,
                     .metric = 0.125};
  trial.point = core.spec().space.draw({}, 3, static_cast<int64_t>(deed.draw % 20));
  trial.point = core.spec().space.with_conditions(trial.point);
  core.learn(trial, deed.now_s);
}

/// What the core says of it, refusals included.
std::string done(StudyCore& core, const Deed& deed) {
  std::string said;
  core.offer({});  // as before each call of a Study
  const std::string refused = test::error_of([&] {
    switch (deed.what) {
      case 0:
      case 1:
      case 2:
      case 3:
        return start_next(core, deed, said);
      case 4:
      case 5:
      case 6:
      case 7:
        return report(core, deed, said);
      case 8:
      case 9:
        return end(core, deed);
      case 10:
        return core.pause_trial(deed.trial, "a user", deed.now_s);
      case 11:
        return core.continue_trial(deed.trial, "a user", deed.now_s);
      case 12:
        return core.stop_trial(deed.trial, "a user", deed.now_s);
      case 13:
        return learn(core, deed);
      case 14:
        core.note("a tuner", deed.now_s, /*session=*/true);
        return core.recover(deed.now_s);
      case 15:
        return core.forgive("once more", deed.now_s);
      case 16:
        return core.note_in_vain(static_cast<int64_t>(deed.draw % 9), "why", deed.now_s);
      default:
        core.offer({{.partial = Point(3, kNan), .reason = "given", .adopted = deed.draw % 40}});
        return start_next(core, deed, said);
    }
  });
  return concat(said, " | ", refused);
}

/// All that a core shows of itself as a whole.
std::string whole(const StudyCore& core) {
  return concat(core.best() == nullptr ? -1 : core.best()->number,
                ' ',
                core.best() == nullptr ? 0 : core.result(*core.best()),
                ' ',
                core.trials().size(),
                ' ',
                core.planned_trials(),
                ' ',
                core.stop_reason(),
                ' ',
                core.has_given_up(),
                ' ',
                shortest(core.used_s()),
                ' ',
                core.identity(),
                ' ',
                core.has_lost_attempts());
}

/// A trial that is not over, or none.
int64_t some_trial(const StudyCore& core, std::mt19937& draw) {
  std::vector<int64_t> open;
  for (const Trial& trial : core.trials())
    if (!is_over(trial.state)) open.push_back(trial.number);
  return open.empty() ? -1 : open[draw() % open.size()];
}

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

INSTANTIATE_TEST_SUITE_P(OfSearchersWithoutHistory,
                         Outlines,
                         ::testing::Values("random", "sobol", "grid"));

/// Trials that are all over, and one that runs.
void play(StudyCore& core, int64_t trials) {
  for (int64_t i = 0; i < trials; ++i) {
    start(core, 1);
    core.report(i, loss(1.0 / static_cast<double>(i + 1)), 2);
    core.ended(i, Failure::kNone, "", 3);
  }
  start(core, 4);
  core.discard_events();
}

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

TEST(Outline, ThereIsNoneWhereMoreIsRemembered) {
  const auto outline_of = [](const auto& change) {
    StudySpec spec = outlined_spec("random");
    change(spec);
    return StudyCore(spec).outline();
  };
  EXPECT_TRUE(outline_of([](StudySpec&) {}));
  EXPECT_FALSE(outline_of([](StudySpec& spec) { spec.scheduler = "asha"; }));
  EXPECT_FALSE(outline_of([](StudySpec& spec) { spec.plateau.patience = 3; }));
  EXPECT_FALSE(outline_of([](StudySpec& spec) { spec.keep_checkpoints = 1; }));
  EXPECT_FALSE(outline_of([](StudySpec& spec) { spec.goals.constraints = {{"loss", true, 1}}; }));
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

TEST(Outline, IsTakenByWhoSuggestsOnlyIfTheSearcherHasNoHistory) {
  StudySpec spec = outlined_spec("tpe");
  StudyCore core(spec);
  play(core, 5);
  const std::string outline = *core.outline();
  StudyCore asks(spec), tells(spec, /*suggests=*/false);
  EXPECT_FALSE(asks.take_outline(outline, core.last_event()));
  EXPECT_TRUE(tells.take_outline(outline, core.last_event()));
  const auto goes_on = [](StudyCore& one) {
    one.report(5, loss(0.25), 6);
    one.ended(5, Failure::kNone, "", 7);
    return texts_of(one.take_events());
  };
  EXPECT_EQ(goes_on(tells), goes_on(core));
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
