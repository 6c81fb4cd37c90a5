// What of a plan is told anew by a start that goes on, and what stays that of the checkpoint.
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/plan/option_infos.h"

namespace muster::train {
namespace {

/// The record of a run with these options.
Json planned_with(const std::function<void(TrainOptions&)>& say, int64_t world_size = 1) {
  TrainOptions options;
  options.lr = 0.1;
  say(options);
  FitNumbers numbers;
  numbers.world_size = world_size;
  return to_json(options, numbers);
}

/// Another value of the same kind.
Json changed(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number_integer()) return value.get<int64_t>() + 1;
  if (value.is_number()) return value.get<double>() + 0.5;
  return value.get<std::string>() + "x";
}

TEST(ToldPlan, HasEveryOptionThatMayBeSaidAnewAndNoOther) {
  const Json before = planned_with([](auto&) {});
  Json told = before;
  for (auto& [name, value] : told.items()) value = changed(value);
  const Json kept = with_options_of(before, told);
  int free = 0;
  const TrainOptions all;
  visit_options(all, [&](const OptionInfo& info, const auto&) {
    const std::string name(info.name);
    const bool may_change = info.on_resume == OnResume::kFree && !is_of_one_place(name);
    free += may_change ? 1 : 0;
    EXPECT_EQ(kept.at(name), (may_change ? told : before).at(name)) << name;
  });
  EXPECT_GT(free, 20);
  for (const char* number : {"world_size", "train_samples", "train_fingerprint", "total_steps"})
    EXPECT_EQ(kept.at(number), before.at(number)) << "of the start that made the checkpoint";
}

TEST(ToldPlan, IsWhatTheNextStartTakesOver) {
  const Json before = planned_with([](auto&) {});
  const Json told = planned_with(
      [](auto& o) {
        o.epochs = 9;
        o.lr = 0.001;
        o.test_weights = "best";
        o.strategy = "ddp";
      },
      2);
  TrainOptions now;
  take_over(with_options_of(before, told), {}, now);
  EXPECT_EQ(now.epochs, 9);
  EXPECT_EQ(now.lr.value, 0.001);
  EXPECT_EQ(now.test_weights, "best");
  EXPECT_EQ(with_options_of(before, before), before);
  EXPECT_EQ(with_options_of(Json::object(), told), Json::object()) << "nobody recorded it";
  // A program of one's own has no models and data.
  Json own = before;
  for (const char* name : {"model", "data", "data_dir", "top_k"}) own.erase(name);
  EXPECT_EQ(with_options_of(own, own), own);
}

TEST(ToldPlan, TheRestTellsACheckpointFromAnotherRuns) {
  const Json before = planned_with([](auto& o) { o.data = "csv:/old/rows.csv,target=y"; });
  const Json told = planned_with([](auto& o) {
    o.data = "csv:/new/rows.csv,target=y";
    o.comm_hook = "fp16";
    o.lr = 0.3;
    o.epochs = 9;
  });
  EXPECT_EQ(without_told(with_options_of(before, told)), without_told(before));
  const Json other = planned_with([](auto& o) { o.seed = 7; });
  EXPECT_NE(without_told(other), without_told(before));
}

TEST(ToldPlan, ARateThatIsANumberEndsTheSearchThatFoundTheOther) {
  Json before = planned_with([](auto&) {});
  before[kFoundBy] = "find";
  Json again = before;
  again["lr"] = 0.2;
  EXPECT_EQ(with_options_of(before, again).at(kFoundBy), "find");
  const Json kept = with_options_of(before, planned_with([](auto& o) { o.lr = 0.3; }));
  EXPECT_EQ(kept.at("lr"), 0.3);
  EXPECT_FALSE(kept.contains(kFoundBy));
  again["lr"] = "find:steps=9";  // of a plan that is not resolved
  EXPECT_EQ(with_options_of(before, again).at("lr"), 0.1);
}

TEST(ToldPlan, KnowsWhoseStateTheCheckpointHas) {
  const Json before = planned_with([](auto& o) { o.comm_hook = "powersgd:rank=2"; });
  const Json half = with_options_of(before, planned_with([](auto& o) { o.comm_hook = "fp16"; }));
  EXPECT_EQ(half.at("comm_hook"), "fp16");
  EXPECT_EQ(half.at(kHookOfState), "powersgd:rank=2");
  const Json none = with_options_of(half, planned_with([](auto&) {}));
  EXPECT_EQ(none.at("comm_hook"), "none");
  EXPECT_EQ(none.at(kHookOfState), "powersgd:rank=2");
  EXPECT_FALSE(with_options_of(before, before).contains(kHookOfState));
}

TEST(ToldPlan, HasTheNewPlaceOfDataAndNoOtherData) {
  const auto with_data = [](const char* data) {
    Json plan = planned_with([&](auto& o) { o.data = data; });
    plan[kLearned] = concat("learned of ", data);
    return plan;
  };
  const Json before = with_data("csv:/old/rows.csv,target=y");
  const Json moved = with_options_of(before, with_data("csv:/new/rows.csv,target=y"));
  EXPECT_EQ(moved.at("data"), "csv:/new/rows.csv,target=y");
  EXPECT_EQ(moved.at(kLearned), "learned of csv:/new/rows.csv,target=y");
  const Json other = with_options_of(before, with_data("csv:/new/rows.csv,target=z"));
  EXPECT_EQ(other.at("data"), "csv:/old/rows.csv,target=y");
  EXPECT_EQ(other.at(kLearned), "learned of csv:/old/rows.csv,target=y");
}

}  // namespace
}  // namespace muster::train
