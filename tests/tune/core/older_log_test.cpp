// A study that an older program began goes on. older_log.txt is what muster of commit 9522430 wrote
// (before suggestions were data) of a study of two slots that was interrupted, asked for a trial, gone
// on with and killed: columns of muster_events, paths shortened.
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "muster/base/text.h"
#include "muster/tune/core/study_core.h"

#include "tests/support/paths.h"
#include "tests/tune/core/core_by_hand.h"

namespace muster::tune {
namespace {

StudySpec older_study() {
  StudySpec spec{.name = "old", .metric = "loss", .mode = Mode::kMin};
  spec.space = Space(std::vector<Parameter>{
      {.name = "x", .domain = uniform(0, 1)},
      {.name = "n", .domain = sample_from("2 ** randint(1, 4)")},
      {.name = "opt", .domain = choice({"adam", "sgd"})},
      {.name = "momentum", .domain = uniform(0.8, 0.99), .when = "opt == 'sgd'"}});
  spec.num_samples = 30;
  spec.scheduler = "asha:variant=promotion,max_t=9,grace_period=1,reduction_factor=3";
  spec.searcher = "random_then_grid:startup=4,top=1";
  spec.seed = 3;
  return spec;
}

std::vector<Event> older_log() {
  std::vector<Event> events;
  std::ifstream file(test::source_path("tests/tune/core/older_log.txt"));
  for (std::string line; std::getline(file, line);) {
    const auto cells = split(line, '\t');
    events.push_back(event_from(std::stoll(cells.at(0)),
                                std::strtod(cells.at(1).c_str(), nullptr),
                                std::stoll(cells.at(2)),
                                cells.at(3),
                                cells.at(4)));
  }
  return events;
}

TEST(OlderLog, ReplaysAndGoesOnToItsEnd) {
  StudySpec spec = older_study();
  spec.num_samples = 40;
  StudyCore core(spec);
  const std::vector<Event> log = older_log();
  ASSERT_GT(log.size(), 200u);
  int asked = 0;
  for (const Event& event : log) {
    core.replay(event);
    asked += event.trial >= 0 && core.is_asked(event.trial) ? 1 : 0;
  }
  EXPECT_GT(asked, 0);
  EXPECT_EQ(core.trials().size(), 30u);
  double now_s = log.back().time_s + 1;
  core.recover(now_s);
  while (true) {
    const auto next = core.next(now_s += 1);
    if (next.kind == StudyCore::Next::kFinished) break;
    if (next.kind == StudyCore::Next::kHandedOut) {
      now_s += spec.ask_lease_s;
      continue;
    }
    ASSERT_EQ(next.kind, StudyCore::Next::kStart);
    const int64_t from = trial(core, next.trial).checkpoint_t;
    for (int64_t t = from + 1; t <= 9; ++t) {
      if (core.report(next.trial,
                      loss(trial(core, next.trial).point[0] + 1. / double(t), t, concat("c/", t)),
                      now_s)
              .action != Action::kContinue)
        break;
    }
    core.ended(next.trial, Failure::kNone, "", now_s);
  }
  EXPECT_EQ(core.trials().size(), 40u);
  for (const Trial& trial : core.trials()) EXPECT_TRUE(is_over(trial.state)) << trial.number;
}

}  // namespace
}  // namespace muster::tune
