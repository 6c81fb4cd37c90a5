// Histories, and what is made of them: CSV, JSON, Ray's files, TensorBoard's.
#include "muster/tune/views/export.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <variant>

#include <gmock/gmock.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/views/ray_files.h"
#include "muster/tune/views/tensorboard_trials.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/golden.h"
#include "tests/support/numbers.h"
#include "tests/tune/written_study.h"

namespace muster::tune {
namespace {

using test::EventMaker;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

using test::kNan;

class Export : public testing::Test {
 protected:
  Export() {
    StudySpec spec;
    spec.name = "fashion";
    spec.metric = "loss";
    spec.mode = Mode::kMin;
    spec.space = space_;
    facts_ = facts_of(spec);
    make_events();
  }

  /// A pruned trial with a pause, one with NaN and a comma, a failed one, a running one.
  void make_events() {
    const auto add = [&](Event event) { events_.push_back(std::move(event)); };
    add(make_.make(-1, TunerNote{"started"}));
    add(make_.added(0, {{"lr", 0.01}, {"l1", 64}, {"batch_size", 4}}));
    add(make_.started(0));
    add(make_.reported(0, 1, {{"loss", 0.5}, {"accuracy", 0.25}}));
    add(make_.ended(0, TrialState::kPaused, "paused at rung 1"));
    add(make_.started(0, 2));
    add(make_.reported(0, 2, {{"loss", 0.75}}));
    add(make_.ended(0, TrialState::kPruned, "stopped at rung 2"));
    add(make_.added(1, {{"lr", 0.001}, {"l1", 8}, {"batch_size", 16}}));
    add(make_.started(1));
    add(make_.reported(1, 1, {{"loss", 0.625}, {"a,b", kNan}}));
    add(make_.ended(1, TrialState::kComplete, "said \"stop\", and did"));
    add(make_.added(2, {{"lr", 0.1}, {"l1", 4}, {"batch_size", 2}}));
    add(make_.started(2));
    Event failed = make_.ended(2, TrialState::kFailed, "exit code 1");
    std::get<AttemptEnded>(failed.what).failure = Failure::kCrash;
    add(failed);
    add(make_.added(3, {{"lr", 0.02}, {"l1", 16}, {"batch_size", 8}}));
    add(make_.started(3));
    add(make_.reported(3, 1, {{"loss", 0.125}}));
  }

  test::Folder folder_;
  Space space_ = test::small_space();
  EventMaker make_{space_};
  std::vector<Event> events_;
  StudyFacts facts_;
};

TEST_F(Export, AHistoryTellsStatesAttemptsTimesAndReasons) {
  const auto trials = histories(events_, facts_);
  ASSERT_THAT(trials, SizeIs(4));
  EXPECT_EQ(trials[0].state, TrialState::kPruned);
  EXPECT_EQ(trials[0].attempts, 2);
  EXPECT_EQ(trials[0].last, 0.75);
  EXPECT_EQ(trials[0].best, 0.5);
  EXPECT_EQ(trials[0].reason, "stopped at rung 2");
  EXPECT_EQ(trials[0].run_s, 1.0);  // two attempts of two quarters, the pause not counted
  EXPECT_EQ(trials[0].rows[1].run_s, 0.75);
  EXPECT_EQ(trials[0].ended_s - trials[0].started_s, 1.25);
  EXPECT_EQ(trials[2].failure, Failure::kCrash);
  EXPECT_EQ(trials[3].state, TrialState::kRunning);
  EXPECT_EQ(trials[3].ended_s, 0);
  EXPECT_EQ(best_of(trials, facts_)->number, 1) << "of the finished ones";
  facts_.scope = StudySpec::Scope::kBest;
  EXPECT_EQ(best_of(trials, facts_)->number, 0);
  EXPECT_EQ(best_of(std::span(trials).subspan(2), facts_)->number, 3) << "or so far";
  EXPECT_EQ(best_of(std::span(trials).subspan(2, 1), facts_), nullptr);
}

TEST_F(Export, ALogThatDoesNotFitItselfIsRefused) {
  EXPECT_THAT(test::refusal_of([&] { histories(std::span(events_).subspan(2), facts_); }),
              HasSubstr("event 3 of the study's log: there is no trial 0"));
  facts_.parameters.pop_back();
  EXPECT_THAT(test::refusal_of([&] { histories(events_, facts_); }),
              HasSubstr("event 2 of the study's log: a trial has 3 values, here 4"));
}

TEST_F(Export, CsvHasALineForEachTrialWithTheLastNumberOfEachMetric) {
  const auto lines = split(to_csv(histories(events_, facts_), facts_), '\n');
  EXPECT_THAT(
      lines,
      ElementsAre(
          "number,state,value,params_lr,params_l1,params_batch_size,params_epochs,metrics_loss,"
          "metrics_accuracy,\"metrics_a,b\",step,reports,attempts,datetime_start,"
          "datetime_complete,run_s,failure,reason",
          "0,PRUNED,0.75,0.01,64,4,10,0.75,0.25,,2,2,2,2023-11-14T22:13:21.000000Z,"
          "2023-11-14T22:13:22.250000Z,1,,stopped at rung 2",
          "1,COMPLETE,0.625,0.001,8,16,10,0.625,,nan,1,1,1,2023-11-14T22:13:22.750000Z,"
          "2023-11-14T22:13:23.250000Z,0.5,,\"said \"\"stop\"\", and did\"",
          "2,FAIL,,0.1,4,2,10,,,,,0,1,2023-11-14T22:13:23.750000Z,2023-11-14T22:13:24.000000Z,"
          "0.25,crash,exit code 1",
          "3,RUNNING,0.125,0.02,16,8,10,0.125,,,1,1,1,2023-11-14T22:13:24.500000Z,,0,,",
          ""));
}

TEST_F(Export, JsonHasEveryReport) {
  const Json json = to_json(histories(events_, facts_), facts_);
  EXPECT_EQ(json["best_trial"], 1);
  EXPECT_EQ(json["parameters"]["l1"], space_.parameters()[1].domain.text());
  const Json& trial = json["trials"][1];
  EXPECT_EQ(trial["params"], Json({{"lr", 0.001}, {"l1", 8}, {"batch_size", 16}, {"epochs", 10}}));
  EXPECT_EQ(trial["reports"][0]["metrics"], Json({{"loss", 0.625}, {"a,b", "nan"}}));
  EXPECT_EQ(json["trials"][2]["failure"], "crash");
  EXPECT_TRUE(json["trials"][2]["value"].is_null());
}

TEST_F(Export, NamesTrialsAsRayDoes) {
  const Json golden = test::read_golden("ray_trial_names");
  for (const Json& one : golden) {
    StudyFacts facts{.name = "s"};
    TrialHistory trial{.number = 3, .started_s = 1.7e9};
    for (const auto& [name, value] : one["params"].items()) {
      facts.parameters.push_back({name, "choice(1)"});
      trial.values.push_back(value_from(value, name));
    }
    facts.parameters.push_back({"constant", "10"});
    trial.values.push_back(10);
    EXPECT_THAT(ray_trial_folder(trial, facts),
                HasSubstr(concat("_00003_3_", one["tag"].get<std::string>(), "_2023-11-1")));
  }
}

/// All files below a folder, by their path within it. Names of event files are left out of it.
std::map<std::string, std::string> contents(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file())
      files[std::filesystem::relative(entry.path(), folder)] = read_file(entry.path());
  }
  return files;
}

TEST_F(Export, RaysFilesAreTheSameWhetherWrittenAtOnceOrWhileTheStudyRuns) {
  write_ray_files(folder_.path() / "once", histories(events_, facts_), facts_, {"h", "::1", 7});
  {
    RayFiles files(folder_.path() / "live", facts_, {"h", "::1", 7});
    for (const Event& event : events_) files.on_events(std::span(&event, 1));
  }
  const auto once = contents(folder_.path() / "once");
  EXPECT_EQ(contents(folder_.path() / "live"), once);
  EXPECT_THAT(once, SizeIs(4 * 3));
  // A resumed study makes them anew and goes on.
  RayFiles files(folder_.path() / "live", facts_, {"h", "::1", 7});
  files.on_events(events_);
  EXPECT_EQ(contents(folder_.path() / "live"), once);
  const std::vector<Event> more = {make_.reported(3, 2, {{"loss", 0.5}, {"new", 1}})};
  files.on_events(more);
  const auto after = contents(folder_.path() / "live");
  const std::string folder = ray_trial_folder(histories(events_, facts_)[3], facts_);
  const auto lines = split(after.at(folder + "/progress.csv"), '\n');
  EXPECT_THAT(lines, SizeIs(4));
  EXPECT_THAT(lines[0], StartsWith("loss,step,timestamp,done,training_iteration"));
  EXPECT_THAT(lines[0], EndsWith(",new\r"));
  EXPECT_THAT(lines[2], EndsWith(",1.0\r"));
}

TEST_F(Export, ATrialThatWentOnAsAnotherHasWhatItHadBefore) {
  const Values before = histories(events_, facts_)[3].values;
  AttemptStarted as_another{.attempt = 2, .from_checkpoint = "c", .donor = 1};
  as_another.point = space_.point_of({{"lr", 0.05}, {"l1", 8}, {"batch_size", 2}});
  as_another.values = space_.resolve(as_another.point);
  events_.push_back(make_.ended(3, TrialState::kPaused, "paused"));
  events_.push_back(make_.make(3, as_another));
  Event report = make_.reported(3, 2, {{"loss", 0.0625}});
  std::get<Reported>(report.what).attempt = 2;
  events_.push_back(report);
  const auto trials = histories(events_, facts_);
  EXPECT_EQ(trials[3].values, as_another.values);
  ASSERT_THAT(trials[3].changes, SizeIs(1));
  EXPECT_EQ(trials[3].changes[0].donor, 1);
  EXPECT_EQ(trials[3].changes[0].t, 1);
  EXPECT_EQ(values_in(trials[3], 1), before);
  EXPECT_EQ(values_in(trials[3], 2), as_another.values);
  const Json json = to_json(trials[3], facts_, true);
  EXPECT_EQ(json["changes"][0]["before"]["lr"], 0.02);
  EXPECT_EQ(json["params"]["lr"], 0.05);

  write_ray_files(folder_.path() / "once", trials, facts_);
  RayFiles files(folder_.path() / "live", facts_);
  for (const Event& event : events_) files.on_events(std::span(&event, 1));
  EXPECT_EQ(contents(folder_.path() / "live"), contents(folder_.path() / "once"));
  const auto lines = split(
      contents(folder_.path() / "once").at(ray_trial_folder(trials[3], facts_) + "/result.json"),
      '\n');
  EXPECT_THAT(lines[0], HasSubstr("\"lr\":0.02"));
  EXPECT_THAT(lines[1], HasSubstr("\"lr\":0.05"));
}

TEST_F(Export, WhatIsWrittenWhileAStudyRunsHoldsNoReportsOfTrialsThatAreOver) {
  RayFiles ray(folder_.path() / "ray", facts_);
  TensorBoardTrials board(folder_.path() / "board", facts_), resumed(folder_.path() / "r", facts_);
  size_t most = 0;
  std::vector<Event> events = events_;
  for (int64_t trial = 4; trial < 40; ++trial) make_.whole(trial, 5, events);
  size_t open = 0;  // reports of trials that are not over
  std::map<int64_t, size_t> reports;
  for (const Event& event : events) {
    if (std::holds_alternative<Reported>(event.what)) ++reports[event.trial], ++open;
    if (const auto* ended = std::get_if<AttemptEnded>(&event.what);
        ended != nullptr && is_over(ended->then))
      open -= reports[event.trial];
    ray.on_events(std::span(&event, 1));
    board.on_events(std::span(&event, 1));
    resumed.on_events(std::span(&event, 1), /*past=*/true);
    EXPECT_EQ(ray.rows_held(), open);
    EXPECT_EQ(board.rows_held(), 0U);
    EXPECT_EQ(resumed.rows_held(), open);
    most = std::max(most, open);
  }
  EXPECT_GT(most, 0U);
  resumed.go_on();
  EXPECT_EQ(resumed.rows_held(), 0U);
}

/// Descriptors that this process has open.
size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

// A study of ASHA's promotions may have thousands of paused trials, and 1,024 descriptors.
TEST_F(Export, TensorBoardHoldsNoDescriptorOfATrialThatDoesNotRun) {
  TensorBoardTrials live(folder_.path() / "live", facts_), late(folder_.path() / "late", facts_);
  const size_t before = open_descriptors();
  std::vector<Event> all;
  const auto take = [&](const Event& event) {
    live.on_events(std::span(&event, 1));
    all.push_back(event);
  };
  for (int64_t trial = 0; trial < 40; ++trial) {
    take(make_.added(trial));
    take(make_.started(trial));
    take(make_.reported(trial, 1, {{"loss", 0.5}}));
    EXPECT_LE(open_descriptors(), before + 1) << "of the one that runs";
    const TrialState then[] = {TrialState::kPaused, TrialState::kPending, TrialState::kComplete};
    take(make_.ended(trial, then[trial % 3]));
    EXPECT_EQ(open_descriptors(), before) << "trial " << trial;
  }
  late.on_events(all, /*past=*/true);
  late.go_on();
  EXPECT_EQ(open_descriptors(), before) << "of a resumed study in which nothing runs";
}

// "done" and "trial_id" are columns of every trial of Ray's, "config" has the parameters.
TEST_F(Export, AMetricThatIsCalledAsAColumnOfRaysHidesNone) {
  std::vector<Event> events;
  events.push_back(make_.added(0));
  events.push_back(make_.started(0));
  events.push_back(make_.reported(
      0, 1, {{"loss", 0.5}, {"done", 7.0}, {"trial_id", 7.0}, {"config", 7.0}, {"params", 7.0}}));
  events.push_back(make_.ended(0, TrialState::kComplete));
  const auto trials = histories(events, facts_);
  write_ray_files(folder_.path(), trials, facts_);
  const auto folder = folder_.path() / ray_trial_folder(trials[0], facts_);
  const std::string line = read_file(folder / "result.json");
  for (const char* key : {"\"done\"", "\"trial_id\"", "\"config\""}) {
    EXPECT_THAT(line, HasSubstr(key));
    EXPECT_EQ(line.find(key), line.rfind(key)) << key << " is there once: " << line;
  }
  const Json json = parse_json(line, "result.json");
  EXPECT_EQ(json["done"], true);
  EXPECT_EQ(json["params"], 7.0) << "no column of Ray's";
  EXPECT_TRUE(json["config"].contains("lr"));
  const std::string progress = read_file(folder / "progress.csv");
  EXPECT_THAT(progress, StartsWith("loss,params,step,"));
}

/// How often `text` is in the event files below a folder.
size_t count_in_events(const std::filesystem::path& folder, const std::string& text) {
  size_t count = 0;
  for (const auto& [name, bytes] : contents(folder))
    for (size_t at = bytes.find(text); at != std::string::npos; at = bytes.find(text, at + 1))
      ++count;
  return count;
}

TEST_F(Export, TensorBoardGetsARunPerTrialAtOnceOrWhileTheStudyRuns) {
  const auto once = folder_.path() / "once", live = folder_.path() / "live";
  write_tensorboard(once, histories(events_, facts_), facts_);
  {
    TensorBoardTrials trials(live, facts_);
    for (const Event& event : events_) trials.on_events(std::span(&event, 1));
  }
  for (const auto& folder : {once, live}) {
    for (const char* run : {"trial-00000", "trial-00001", "trial-00002", "trial-00003"})
      EXPECT_EQ(count_in_events(folder / run, "_hparams_/session_start_info"), 1U) << run;
    EXPECT_EQ(count_in_events(folder / "trial-00003", "_hparams_/session_end_info"), 0U);
    EXPECT_EQ(count_in_events(folder, "_hparams_/session_end_info"), 3U);
    EXPECT_EQ(count_in_events(folder / "trial-00000", "\x0a\x04loss"), 2U);
    EXPECT_EQ(count_in_events(folder / "trial-00001",
                              "\x0a\x03"
                              "a,b"),
              1U);
  }
  EXPECT_EQ(count_in_events(once, "_hparams_/experiment"), 1U);
  // Resumed: only what is not over is made anew.
  TensorBoardTrials trials(live, facts_);
  for (const Event& event : events_) trials.on_events(std::span(&event, 1), /*past=*/true);
  trials.go_on();
  EXPECT_EQ(count_in_events(live / "trial-00000", "_hparams_/session_start_info"), 1U);
  EXPECT_EQ(count_in_events(live / "trial-00003", "_hparams_/session_start_info"), 2U);
}

TEST_F(Export, TensorBoardOfAResumedStudyHasTheTrialsThatWereOverBeforeItWasAskedFor) {
  const auto all = folder_.path() / "all", late = folder_.path() / "late";
  write_tensorboard(all, histories(events_, facts_), facts_);
  const auto resume = [&] {
    TensorBoardTrials trials(late, facts_);
    for (const Event& event : events_) trials.on_events(std::span(&event, 1), /*past=*/true);
    trials.go_on();
  };
  resume();
  const char* const tags[] = {
      "_hparams_/session_start_info", "_hparams_/session_end_info", "\x0a\x04loss"};
  for (const char* tag : tags)
    EXPECT_EQ(count_in_events(late, tag), count_in_events(all, tag)) << tag;
  // A kill had left one without its end: that one is made anew, its neighbour is not.
  const auto over = contents(late / "trial-00000");
  const auto file = late / "trial-00001" / contents(late / "trial-00001").begin()->first;
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  resume();
  EXPECT_EQ(contents(late / "trial-00000"), over);
  EXPECT_EQ(contents(late / "trial-00001").size(), 2U);
  EXPECT_EQ(count_in_events(late / "trial-00001", "_hparams_/session_end_info"), 1U);
}

/// Trials of two objectives and a constraint: on the front, behind it, beyond the constraint, running.
TEST(ExportOfSeveralObjectives, HasEachAndMarksTheFront) {
  StudyFacts facts{.name = "two", .metric = "accuracy", .mode = Mode::kMax};
  facts.goals = {.objectives = {{"accuracy", Mode::kMax}, {"step_s", Mode::kMin}},
                 .constraints = {{"peak_mib", true, 900}}};
  facts.parameters = {{"lr", "uniform(0, 1)"}};
  EventMaker make(Space{{"lr", uniform(0, 1)}});
  std::vector<Event> events;
  const auto trial = [&](int64_t number, const Metrics& metrics, bool ends = true) {
    events.push_back(make.added(number, {{"lr", 0.5}}));
    events.push_back(make.started(number));
    events.push_back(make.reported(number, 1, metrics));
    if (ends) events.push_back(make.ended(number, TrialState::kComplete));
  };
  trial(0, {{"accuracy", 0.75}, {"step_s", 2}, {"peak_mib", 900}});
  trial(1, {{"accuracy", 0.5}, {"step_s", 2}, {"peak_mib", 100}});
  trial(2, {{"accuracy", 1}, {"step_s", 1}, {"peak_mib", 901.5}});
  trial(3, {{"accuracy", 1}}, false);
  const auto trials = histories(events, facts);
  const std::string csv = to_csv(trials, facts);
  EXPECT_THAT(
      csv, StartsWith("number,state,values_accuracy,values_step_s,violation,on_front,params_lr,"));
  EXPECT_THAT(csv, HasSubstr("\n0,COMPLETE,0.75,2,0,1,0.5,"));
  EXPECT_THAT(csv, HasSubstr("\n1,COMPLETE,0.5,2,0,0,0.5,"));
  EXPECT_THAT(csv, HasSubstr("\n2,COMPLETE,1,1,1.5,0,0.5,"));
  EXPECT_THAT(csv, HasSubstr("\n3,RUNNING,1,,,0,0.5,"));
  const Json json = to_json(trials, facts);
  EXPECT_EQ(json["objectives"], Json({"max accuracy", "min step_s"}));
  EXPECT_EQ(json["constraints"], Json::array({"peak_mib <= 900"}));
  EXPECT_EQ(json["best_trials"], Json::array({0}));
  EXPECT_FALSE(json.contains("metric") || json.contains("best_trial"));
  EXPECT_EQ(json["trials"][0]["values"], (Json{{"accuracy", 0.75}, {"step_s", 2.0}}));
  EXPECT_EQ(json["trials"][0]["on_front"], true);
  EXPECT_EQ(json["trials"][2]["feasible"], false);
  EXPECT_TRUE(json["trials"][3]["violation"].is_null());
}

}  // namespace
}  // namespace muster::tune
