// The worked example of docs/add-a-scheduler.md: a trial that lags far behind the best is stopped.
// scheduler_contract_test.cpp runs over it as over every entry of the table.
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"
#include "muster/tune/schedule/scheduler.h"
#include "muster/tune/schedule/score_text.h"

#include "tests/support/error_of.h"

namespace muster::tune {
namespace {

// W&B and Vizier call such rules "bandit" policies: at time t a trial is stopped whose score is
// more than `slack` below the best that any trial had reported by then.

struct SlackOptions {
  double slack = 0.1;        ///< in the unit of the metric
  int64_t grace_period = 5;  ///< no stop before this t
};

constexpr Param kParams[] = {
    param<&SlackOptions::slack>("slack", "how far behind the best a trial may be"),
    param<&SlackOptions::grace_period>("grace_period", "no stop before this t")};

class Slack final : public Scheduler {
 public:
  Slack(const SchedulerContext& context, const SlackOptions& options)
      : context_(context), options_(options) {}

  Decision on_report(int64_t number, int64_t t, double score) override {
    const auto [last_t, is_new] = last_t_.try_emplace(number, t);
    if (!is_new) require_rising(number, last_t->second, t);
    last_t->second = t;
    if (std::isnan(score)) score = -std::numeric_limits<double>::infinity();
    const double cutoff = best_by(t) - options_.slack;
    note(t, score);
    if (t < options_.grace_period || !(score < cutoff)) return {};
    return {Action::kStop,
            concat("stopped at ", t, ": ", worse_than_text(score, cutoff, context_.mode))};
  }

  void on_end(int64_t number, TrialState /*state*/) override { last_t_.erase(number); }

  std::string status() const override {
    return best_.empty() ? "slack: no report yet"
                         : "slack: best " + metric_text(best_.rbegin()->second, context_.mode);
  }

 private:
  /// The best score of a report at t or before.
  double best_by(int64_t t) const {
    const auto after = best_.upper_bound(t);
    return after == best_.begin() ? -std::numeric_limits<double>::infinity()
                                  : std::prev(after)->second;
  }

  /// best_ rises with t: what is not better than a report before it is left out.
  void note(int64_t t, double score) {
    if (!(score > best_by(t))) return;
    auto at = best_.insert_or_assign(t, score).first;
    for (++at; at != best_.end() && at->second <= score;) at = best_.erase(at);
  }

  SchedulerContext context_;
  SlackOptions options_;
  std::map<int64_t, double> best_;
  std::unordered_map<int64_t, int64_t> last_t_;  // of the trials that have not ended
};

std::unique_ptr<Scheduler> make(const SchedulerContext& context, const ParamValues& params) {
  const auto options = resolve_params<SlackOptions>(kParams, params, "scheduler slack");
  if (!(options.slack >= 0)) {
    throw usage_error({.refused = "scheduler slack",
                       .rule = "slack is not negative",
                       .value = "slack=" + shortest(options.slack)});
  }
  return std::make_unique<Slack>(context, options);
}

}  // namespace

namespace worked {  // not in the guide: a reader's slack.cpp is another one

extern constinit const SchedulerEntry slack_entry{
    "slack", "stops a trial that lags far behind the best", kParams, &make};

}  // namespace worked

namespace {

using worked::slack_entry;

TEST(WorkedScheduler, ComparesATrialWithTheBestAtTheSameTime) {
  const auto slack = slack_entry.make({.mode = Mode::kMin}, {{"grace_period", "2"}});
  EXPECT_EQ(slack->on_report(0, 1, -0.9), Decision{});
  EXPECT_EQ(slack->on_report(0, 2, -0.5), Decision{});
  EXPECT_EQ(slack->on_report(0, 9, -0.1), Decision{});
  EXPECT_EQ(slack->on_report(1, 2, -0.55), Decision{}) << "0.1 at t = 9 is no matter at t = 2";
  EXPECT_EQ(slack->on_report(1, 3, -0.7).reason, "stopped at 3: 0.7 > cutoff 0.6");
  EXPECT_EQ(slack->status(), "slack: best 0.1");
  EXPECT_THAT(test::refusal_of([] {
                slack_entry.make({}, {{"slack", "-1"}});
              }),
              ::testing::HasSubstr("slack is not negative"));
}

}  // namespace
}  // namespace muster::tune
