// The searcher gp where most trials are stopped early: it must make something of them.
#include <cmath>
#include <deque>
#include <map>

#include <gtest/gtest.h>

#include "muster/tune/core/study_core.h"

namespace muster::tune {
namespace {

/// Losses that fall as 1 / t to a floor, the faster the larger the learning rate; early they favour
/// other places than late.
double curve(const Point& p, int64_t t) {
  const double lr = std::log10(p[0]), width = std::log2(p[1]);
  const double floor =
      0.3 * std::pow(lr + 2.7, 2) + 0.05 * std::pow(width - 6.5, 2) + 0.3 * std::pow(p[2] - 0.3, 2);
  return floor + (1.5 + 0.4 * std::abs(lr)) / static_cast<double>(t);
}

/// The least loss at 27 steps that a study with four slots finds, with ASHA.
double found(const std::string& searcher, const std::string& variant, uint64_t seed) {
  StudyCore core({.name = "test",
                  .metric = "loss",
                  .mode = Mode::kMin,
                  .num_samples = 40,
                  .space = {{"lr", loguniform(1e-5, 1)},
                            {"width", lograndint(4, 1024)},
                            {"dropout", uniform(0, 0.9)}},
                  .searcher = searcher,
                  .scheduler = "asha:max_t=27,reduction_factor=3,variant=" + variant,
                  .seed = seed});
  std::deque<int64_t> running;
  std::map<int64_t, int64_t> t;
  double best = 1e9;
  for (double now_s = 1;; now_s += 1) {
    while (running.size() < 4) {
      const auto next = core.next(now_s);
      if (next.kind == StudyCore::Next::kFinished && running.empty()) return best;
      if (next.kind != StudyCore::Next::kStart) break;
      running.push_back(next.trial);
    }
    if (running.empty()) return best;
    const int64_t number = running.front();
    running.pop_front();
    const Point point = core.trials()[static_cast<size_t>(number)].point;
    const double loss = curve(point, ++t[number]);
    if (t[number] == 27) best = std::min(best, loss);
    const Decision decision =
        core.report(number,
                    {.step = t[number], .metrics = {{"loss", loss}}, .checkpoint = "checkpoint"},
                    now_s);
    if (decision.action == Action::kContinue)
      running.push_back(number);
    else
      core.ended(number, Failure::kNone, "", now_s);
  }
}

TEST(GpUnderAsha, StoppedAndPausedTrialsLeadItToBetterPlacesThanRandomDraws) {
  for (const char* variant : {"stopping", "promotion"}) {
    int better = 0;
    double gp = 0, random = 0;
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      const double ours = found("gp:samples=128", variant, seed),
                   drawn = found("random", variant, seed);
      better += ours <= drawn;
      gp += ours / 5;
      random += drawn / 5;
    }
    EXPECT_GE(better, 4) << variant;
    EXPECT_LT(gp, random) << variant;
    RecordProperty(std::string(variant) + "_gp", std::to_string(gp));
    RecordProperty(std::string(variant) + "_random", std::to_string(random));
  }
}

}  // namespace
}  // namespace muster::tune
