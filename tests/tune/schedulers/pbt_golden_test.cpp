// Population based training against Ray Tune's, from tests/golden/tune_pbt/golden.json: the golden's
// random numbers are ours, so that donors and new parameters can be told apart.
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/json.h"
#include "muster/tune/schedule/pbt/pbt_options.h"
#include "muster/tune/schedule/pbt/population.h"
#include "muster/tune/schedule/scheduler.h"
#include "muster/tune/space/distribution.h"
#include "muster/tune/space/space.h"

#include "tests/support/golden.h"

namespace muster::tune {
namespace {

const Json& pbt_golden() {
  static const Json json = test::read_golden("tune_pbt");
  return json;
}

const Space& pbt_space() {
  static const Space space({{"lr", uniform(1e-12, 1e12)},
                            {"optimizer", choice({"adam", "adamw", "rmsprop", "sgd"})},
                            {"units", randint(1, 1000000000)}});
  return space;
}

Point point_of_config(const Json& config) {
  return pbt_space().point_of({{"lr", Value(config.at("lr").get<double>())},
                               {"optimizer", Value(config.at("optimizer").get<std::string>())},
                               {"units", Value(config.at("units").get<int64_t>())}});
}

std::string pbt_spec(const Json& json) {
  PbtOptions options{.resample_probability = 0, .mutate = "lr optimizer units"};
  options.perturbation_interval = json.at("perturbation_interval");
  options.burn_in_period = json.value("burn_in_period", options.burn_in_period);
  options.quantile_fraction = json.value("quantile_fraction", options.quantile_fraction);
  options.synch = json.value("synch", false);
  if (json.contains("perturbation_factors")) {
    options.perturb_up = json.at("perturbation_factors")[0];
    options.perturb_down = json.at("perturbation_factors")[1];
  }
  return pbt(options);
}

/// A population with a slot for each trial; copies are made as soon as they are ordered.
class Population {
 public:
  explicit Population(const Json& a_case)
      : mode_(parse_mode(a_case.at("mode").get<std::string>())),
        scheduler_(
            make_scheduler(pbt_spec(a_case.at("options")),
                           {.seed = a_case.at("seed"), .mode = mode_, .space = pbt_space()})) {
    for (const Json& config : a_case.at("configs")) {
      points_.push_back(point_of_config(config));
      scheduler_->on_start(static_cast<int64_t>(points_.size()) - 1, points_.back());
    }
    scheduler_->no_more_trials();
  }

  void end(int64_t number) { scheduler_->on_end(number, TrialState::kComplete); }

  /// `saved`: Ray has a checkpoint of it.
  Action report(const Json& event, bool saved) {
    const int64_t number = event[0];
    scheduler_->on_checkpoint(number, saved ? event[1].get<int64_t>() : 0);
    const Action action = scheduler_->on_report(number, event[1], score_of(event[2], mode_)).action;
    if (action == Action::kPause) scheduler_->on_pause(number);
    return action;
  }

  struct Copy {
    int64_t donor;
    Point point;
  };
  /// By trial; all that wait go on.
  std::map<int64_t, Copy> copies() {
    std::map<int64_t, Copy> out;
    while (const auto order = scheduler_->promote()) {
      if (order->donor >= 0) {
        out[order->number] = {order->donor, order->point};
        points_[static_cast<size_t>(order->number)] = order->point;
      }
      scheduler_->on_resume(order->number, points_[static_cast<size_t>(order->number)]);
    }
    return out;
  }

 private:
  Mode mode_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<Point> points_;
};

void expect_copy(const Population::Copy& ours, const Json& rays) {
  EXPECT_EQ(ours.donor, rays[0].get<int64_t>());
  EXPECT_EQ(ours.point, point_of_config(rays[1]));
}

TEST(PbtGolden, WhoCopiesWhomAndWithWhatIsRays) {
  size_t copied = 0;
  for (const Json& a_case : pbt_golden().at("cases")) {
    SCOPED_TRACE(a_case.at("options").dump());
    Population population(a_case);
    size_t next = 0;
    for (const Json& event : a_case.at("events")) {
      if (event[1] == "end") {
        population.end(event[0]);
        continue;
      }
      const bool saved = a_case.at("saved").at(next) == 1;
      const Json& rays = a_case.at("answers").at(next++);
      const Action action = population.report(event, saved);
      ASSERT_EQ(action, rays == "C" ? Action::kContinue : Action::kPause) << next << event.dump();
      if (rays == "C") continue;
      const auto ours = population.copies();
      if (rays.is_array()) {
        ASSERT_EQ(ours.size(), 1U) << next;
        expect_copy(ours.at(event[0]), rays);
      } else {
        const Json copies = rays.is_object() ? rays : Json::object();
        ASSERT_EQ(ours.size(), copies.size()) << next;
        for (const auto& [number, copy] : copies.items())
          expect_copy(ours.at(std::stoll(number)), copy);
      }
      copied += ours.size();
    }
  }
  EXPECT_GT(copied, 150U);
}

TEST(PbtGolden, QuantilesAreRays) {
  for (const Json& expected : pbt_golden().at("quantiles")) {
    std::vector<Scored> trials;
    for (const double score : expected.at("scores"))
      trials.push_back({static_cast<int64_t>(trials.size()), score});
    const Quantiles ours = quantiles(trials, expected.at("fraction"));
    EXPECT_EQ(ours.lower, expected.at("lower").get<std::vector<int64_t>>()) << expected;
    EXPECT_EQ(ours.upper, expected.at("upper").get<std::vector<int64_t>>()) << expected;
  }
}

TEST(PbtGolden, ANumberMovesAsRays) {
  for (const Json& expected : pbt_golden().at("values")) {
    const Distribution distribution =
        Domain::parse(expected.at("domain").get<std::string>(), "golden").distribution();
    const auto number = [&](const char* key) {
      const Json& value = expected.at(key);
      return number_of(
          distribution,
          value.is_number_integer() ? Value(value.get<int64_t>()) : Value(value.get<double>()));
    };
    EXPECT_EQ(perturbed(distribution, *number("value"), expected.at("up"), expected.at("factor")),
              *number("explored"))
        << expected;
  }
}

}  // namespace
}  // namespace muster::tune
