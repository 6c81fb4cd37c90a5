// A searcher that thinks elsewhere: what it knows then, and in which order it is told.
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"
#include "muster/tune/core/study_core.h"

#include "tests/support/error_of.h"
#include "tests/tune/core/core_by_hand.h"

namespace muster::tune {
namespace {

using ::testing::ElementsAre;
using Next = StudyCore::Next;

/// Writes down what it is asked and told. Suggests how much it was told; waits below `needs`.
struct Diarist final : Searcher {
  explicit Diarist(std::vector<std::string>& diary) : diary(diary) {}

  Suggestion suggest(int64_t number, const Point& partial) override {
    diary.push_back(concat("? ", number));
    if (throws) throw std::runtime_error("no model");
    if (tells < needs) return {.kind = Suggestion::kWait};
    return {.point = keep_fixed({static_cast<double>(tells) / 100}, partial)};
  }
  void suggested(int64_t number, const Point& /*point*/, const std::string& /*memo*/) override {
    tell(concat("suggested ", number));
  }
  void reported(int64_t number, int64_t t, double /*score*/) override {
    tell(concat("reported ", number, ' ', t));
  }
  void told(const FinishedTrial& trial) override { tell(concat("told ", trial.number)); }

  void tell(const std::string& what) {
    diary.push_back(what);
    ++tells;
  }

  std::vector<std::string>& diary;
  int64_t tells = 0, needs = 0;
  bool throws = false;
};

struct SlowStudy {
  StudySpec spec = spec_with(9);
  std::vector<std::string> diary;
  Diarist* searcher = nullptr;

  SlowStudy() {
    spec.space = Space({{"x", uniform(0, 1)}});
    spec.searcher = "diarist";
    spec.own_searcher = [this](const SearcherContext&) {
      auto made = std::make_unique<Diarist>(diary);
      searcher = made.get();
      return made;
    };
  }

  /// The first trial runs, and the searcher thinks about the second.
  std::function<void()> begin(StudyCore& core) const {
    core.next(0, false, true).think();
    EXPECT_EQ(core.next(0, false, true).trial, 0);
    const Next next = core.next(0, false, true);
    EXPECT_EQ(next.kind, Next::kThink);
    return next.think;
  }
};

TEST(SlowSearcher, ReportsAreAnsweredWhileItThinksAndTheAnswerIsOfWhatWasKnown) {
  SlowStudy study;
  StudyCore core(study.spec);
  const auto think = study.begin(core);
  ASSERT_TRUE(think);
  const int64_t known = 2;  // trial 0 was added, and started
  core.report(0, loss(1), 1);
  const Next busy = core.next(1, false, true);
  EXPECT_EQ(busy.kind, Next::kThink);
  EXPECT_FALSE(busy.think) << "it is asked once";
  think();
  core.report(0, loss(2), 2);
  const Next next = core.next(2, false, true);
  ASSERT_EQ(next.kind, Next::kStart);
  EXPECT_EQ(trial(core, 1).point[0], 0.01) << "one thing was told when it was asked";
  EXPECT_THAT(
      study.diary,
      ElementsAre("? 0", "suggested 0", "? 1", "reported 0 1", "reported 0 2", "suggested 1"));
  std::vector<Event> log = core.take_events();
  const auto& added = std::get<TrialAdded>(log[log.size() - 2].what);
  EXPECT_EQ(added.known, known);

  // A replay asks nothing and tells it in the same order.
  study.diary.clear();
  StudyCore again(study.spec);
  for (const Event& event : log) {
    again.replay(
        event_from(event.id, event.time_s, event.trial, kind_of(event), payload_text(event)));
  }
  EXPECT_THAT(study.diary,
              ElementsAre("suggested 0", "reported 0 1", "reported 0 2", "suggested 1"));
}

TEST(SlowSearcher, WithNothingBetweenTheLogIsThatOfAQuickOne) {
  SlowStudy study;
  StudyCore slow(study.spec), quick(study.spec);
  for (StudyCore* core : {&slow, &quick}) {
    for (int64_t number = 0; number < 3; ++number) {
      Next next = core->next(0, false, core == &slow);
      if (next.kind == Next::kThink) {
        next.think();
        next = core->next(0, false, true);
      }
      core->report(next.trial, loss(1), 0);
      core->ended(next.trial, Failure::kNone, "", 0);
    }
  }
  const auto text = [](StudyCore& core) {
    std::string all;
    for (const Event& event : core.take_events()) all += payload_text(event) + '\n';
    return all;
  };
  EXPECT_EQ(text(slow), text(quick));
}

TEST(SlowSearcher, APointFromElsewhereTakesTheNumberAndItIsAskedForTheNextOne) {
  SlowStudy study;
  StudyCore core(study.spec);
  const auto think = study.begin(core);
  core.offer({{.partial = {0.5}, .reason = "by hand"}});
  EXPECT_EQ(core.next(1, false, true).trial, 1) << "while it thinks";
  think();
  const Next next = core.next(1, false, true);
  ASSERT_EQ(next.kind, Next::kThink);
  next.think();
  EXPECT_EQ(core.next(1, false, true).trial, 2);
  EXPECT_THAT(study.diary, ElementsAre("? 0", "suggested 0", "? 1", "? 2", "suggested 2"));
}

TEST(SlowSearcher, ThatItWaitsHoldsOnlyUntilItIsToldMore) {
  SlowStudy study;
  StudyCore core(study.spec);
  const auto think = study.begin(core);
  study.searcher->needs = 2;
  core.report(0, loss(1), 1);
  think();
  Next next = core.next(1, false, true);
  ASSERT_EQ(next.kind, Next::kThink) << "it did not know of the report";
  next.think();
  EXPECT_EQ(core.next(1, false, true).trial, 1);
}

TEST(SlowSearcher, WhatItThrowsComesOutOfNext) {
  SlowStudy study;
  StudyCore core(study.spec);
  study.searcher->throws = true;
  core.next(0, false, true).think();
  EXPECT_THROW(core.next(0, false, true), std::runtime_error);
  study.searcher->throws = false;
  core.next(0, false, true).think();
  EXPECT_EQ(core.next(0, false, true).kind, Next::kStart);
}

TEST(SlowSearcher, WhoThinksMayOutliveTheCore) {
  SlowStudy study;
  auto core = std::make_unique<StudyCore>(study.spec);
  const auto think = study.begin(*core);
  core.reset();
  think();
  EXPECT_EQ(study.diary.back(), "? 1");
}

}  // namespace
}  // namespace muster::tune
