// `muster study watch` without a terminal: keys in, rows and requests out.
#include <gmock/gmock.h>

#include "muster/base/text.h"

#include "cli/watch/watch_model.h"
#include "cli/watch/watch_view.h"
#include "tests/support/error_of.h"
#include "tests/tune/written_study.h"

namespace muster::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using tune::Action;
using tune::TrialState;

constexpr double kNow = 1.7e9 + 100;

tune::StudySummary summary_of(const std::string& name = "fashion") {
  return {.name = name,
          .metric = "loss",
          .mode = tune::Mode::kMin,
          .description = test::description_of(test::small_space(), name)};
}

class StudyWatch : public testing::Test {
 protected:
  /// Trials 0 to 3: complete (loss 1/3), pruned (1/2 after one report), running (one report), paused
  /// by a user without a report.
  StudyWatch() {
    std::vector<tune::Event> events = {
        make_.make(-1, tune::TunerNote{.text = "", .session = true})};
    add(0, 0.01, 8, 3, events);
    events.push_back(make_.ended(0, TrialState::kComplete, "max_t reached"));
    add(1, 0.001, 64, 1, events);
    events.push_back(make_.ended(1, TrialState::kPruned, "stopped at rung 1"));
    add(2, 0.05, 8, 1, events);
    add(3, 0.02, 8, 0, events);
    events.push_back(make_.make(
        3, tune::AttemptEnded{.message = "by hand", .then = TrialState::kPaused, .by_user = true}));
    study_.add(events);
    study_.set_tuner(123, {.time_budget_s = 7200, .max_concurrent = 2, .planned = 20});
    model_.emplace(study_, kNow);
  }

  void add(int64_t number, double lr, int64_t l1, int64_t reports, std::vector<tune::Event>& out) {
    out.push_back(make_.added(number, {{"lr", lr}, {"l1", l1}, {"batch_size", 4}}));
    out.push_back(make_.started(number));
    for (int64_t t = 1; t <= reports; ++t)
      out.push_back(make_.reported(number, t, {{"loss", 1.0 / double(t + number)}}));
  }

  std::optional<WatchRequest> press(const std::string& letters) {
    std::optional<WatchRequest> last;
    for (const char c : letters) last = model_->on_key({Key::kLetter, std::string(1, c)}, kNow);
    return last;
  }
  std::optional<WatchRequest> press(Key::Kind kind) { return model_->on_key({kind}, kNow); }

  std::string drawn(size_t columns = 100,
                    size_t rows = 20,
                    const std::vector<std::string>& log = {}) {
    Canvas canvas(columns, rows);
    draw_watch(*model_, log, kNow, canvas);
    std::string text;
    for (size_t row = 0; row < rows; ++row) text += canvas.line(row) + '\n';
    return text;
  }

  std::vector<size_t> filtered(const std::string& text) {
    press("/");
    while (!model_->field().text().empty()) press(Key::kBackspace);
    press(text);
    press(Key::kEnter);
    return model_->rows();
  }

  void sort_by(const std::string& name) {
    press("s");
    while (model_->columns()[model_->choice()].name != name) press(Key::kDown);
    press(Key::kEnter);
  }

  test::EventMaker make_{test::small_space()};
  WatchedStudy study_{summary_of()};
  std::optional<WatchModel> model_;
};

TEST_F(StudyWatch, ShowsTheStudyAndItsTrials) {
  const std::string text = drawn();
  EXPECT_THAT(text,
              AllOf(HasSubstr("fashion  min loss  random / fifo"),
                    HasSubstr("of 2h00m, process 123\n"),
                    HasSubstr("4/20 trials: 1 RUNNING, 1 PAUSED, 1 COMPLETE, 1 PRUNED; slots 1/2"),
                    HasSubstr("best: trial 0, loss 0.3333333333333333  lr=0.01  l1=8")));
  const std::vector<std::string> lines = split(text, '\n');
  EXPECT_THAT(lines[4], HasSubstr("trial▲  state"));
  EXPECT_THAT(lines[5], AllOf(HasSubstr("0  COMPLETE  0.33333"), HasSubstr("max_t reached")));
  EXPECT_THAT(lines[8], AllOf(HasSubstr("3  PAUSED"), HasSubstr("by hand")));
  EXPECT_THAT(lines[19], HasSubstr("? help"));
}

TEST(StudyWatchOfSeveral, TheHeadTellsOfTheFrontAndItsEnds) {
  tune::StudySummary summary = summary_of();
  summary.goals.objectives = {{"loss", tune::Mode::kMin}, {"accuracy", tune::Mode::kMax}};
  WatchedStudy study(summary);
  const auto head = [&] {
    WatchModel model(study, kNow);
    Canvas canvas(100, 20);
    draw_watch(model, {}, kNow, canvas);
    return std::vector{canvas.line(0), canvas.line(2), canvas.line(4)};
  };
  EXPECT_EQ(head()[1], "front: none yet");
  test::EventMaker make(test::small_space());
  std::vector<tune::Event> events;
  const std::vector<std::pair<double, double>> results = {{0.5, 0.9}, {0.25, 0.8}, {0.75, 0.7}};
  for (size_t i = 0; i < results.size(); ++i) {
    const auto number = static_cast<int64_t>(i);
    events.push_back(make.added(number));
    events.push_back(make.started(number));
    events.push_back(
        make.reported(number, 1, {{"loss", results[i].first}, {"accuracy", results[i].second}}));
    events.push_back(make.ended(number, TrialState::kComplete));
  }
  study.add(events);
  const auto lines = head();
  EXPECT_THAT(lines[0], HasSubstr("fashion  min loss, max accuracy"));
  EXPECT_EQ(lines[1], "front: 2 trials; loss 0.25 by trial 1, accuracy 0.9 by trial 0");
  EXPECT_THAT(lines[2], HasSubstr("state     loss  accuracy")) << "a column for each";
}

TEST_F(StudyWatch, SortsByAnyColumnWithWhatIsEmptyLast) {
  sort_by("loss");
  EXPECT_THAT(model_->rows(), ElementsAre(0, 2, 1, 3)) << "the best on top";
  press("r");
  EXPECT_THAT(model_->rows(), ElementsAre(1, 0, 2, 3));
  sort_by("lr");
  EXPECT_THAT(model_->rows(), ElementsAre(1, 0, 3, 2));
  sort_by("state");
  EXPECT_THAT(model_->rows(), ElementsAre(0, 3, 1, 2));
}

TEST_F(StudyWatch, FiltersByStatesTextsAndNumbers) {
  EXPECT_THAT(filtered("state:run"), ElementsAre(2));
  EXPECT_THAT(filtered("lr<=0.02 l1=8"), ElementsAre(0, 3));
  EXPECT_THAT(filtered("loss>0.4"), ElementsAre(1)) << "a trial without one is not above";
  EXPECT_THAT(filtered("RUNG"), ElementsAre(1)) << "the reason, in any case";
  EXPECT_THAT(filtered("lr>1"), IsEmpty());
  EXPECT_THAT(drawn(), HasSubstr("no trial is left by the filter"));
  press(Key::kEscape);
  EXPECT_THAT(model_->rows(), SizeIs(4));
}

TEST_F(StudyWatch, AWrongFilterIsSaidWhereItIsTyped) {
  filtered("lt<1");
  EXPECT_THAT(model_->message(), HasSubstr("did you mean \"lr\"?"));
  EXPECT_EQ(model_->mode(), WatchModel::kFilter);
  press(Key::kEscape);
  EXPECT_THAT(model_->rows(), SizeIs(4));
  EXPECT_THAT(filtered("lr<fast"), SizeIs(4));
  EXPECT_THAT(model_->message(), HasSubstr("a number stands behind <"));
}

TEST_F(StudyWatch, KeysMoveAndTheSelectedTrialStaysSelected) {
  EXPECT_EQ(model_->selected(), 3U) << "the newest";
  press("gj");
  EXPECT_EQ(model_->selected(), 1U);
  sort_by("loss");
  press("G");
  EXPECT_EQ(model_->selected(), 3U);
  press(Key::kUp);
  EXPECT_EQ(model_->selected(), 1U);
  press("r");
  EXPECT_EQ(model_->selected(), 1U) << "wherever it is now";
  std::vector<tune::Event> more;
  add(4, 0.03, 8, 5, more);
  study_.add(more);
  model_->refresh(kNow);
  EXPECT_EQ(model_->selected(), 1U);
  press(Key::kHome);
  press("k");
  EXPECT_EQ(model_->selected_row(), 0U);
}

TEST_F(StudyWatch, TheDetailsTellOfOneTrial) {
  press("g");
  press(Key::kEnter);
  const std::string text = drawn(80, 24, {"epoch 1", "epoch\x1b[2J 2"});
  EXPECT_THAT(text,
              AllOf(HasSubstr("── trial 0  COMPLETE ──"),
                    HasSubstr("lr=0.01  l1=8  batch_size=4  epochs=10"),
                    HasSubstr("▁  0.33333, best 0.33333, 3 reports"),
                    HasSubstr("epoch 1\nepoch\\x1b[2J 2")));
  press(Key::kEnter);
  EXPECT_THAT(drawn(80, 24), Not(HasSubstr("── trial")));
}

TEST_F(StudyWatch, StopsATrialWhenThatIsConfirmed) {
  press("gjj");
  EXPECT_EQ(press("x"), std::nullopt);
  EXPECT_THAT(drawn(), HasSubstr("stop trial 2 for good? y / n"));
  EXPECT_EQ(press("n"), std::nullopt);
  EXPECT_EQ(press("y"), std::nullopt) << "nothing is asked any more";
  press("x");
  const auto request = press("y");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->trial, 2);
  EXPECT_EQ(request->action, Action::kStop);
  press("g");
  EXPECT_EQ(press("x"), std::nullopt);
  EXPECT_THAT(model_->message(), HasSubstr("trial 0 is over"));
}

TEST_F(StudyWatch, OneKeyPausesAndContinues) {
  EXPECT_EQ(press("Gp")->action, Action::kContinue);
  EXPECT_EQ(press("kp")->action, Action::kPause);
  const tune::Event order = make_.make(2, tune::PauseOrdered{"by hand"});
  study_.add({&order, 1});
  EXPECT_EQ(press("p")->action, Action::kContinue) << "it is taken back";
  EXPECT_THAT(drawn(), HasSubstr("to be paused at its"));
}

TEST_F(StudyWatch, AddsATrialFromTheValuesOfTheSelectedOne) {
  press("ga");
  EXPECT_EQ(model_->field().text(), "lr=0.01 l1=8 batch_size=4");
  for (int i = 0; i < 12; ++i) press(Key::kBackspace);
  press("batch_size=5");
  EXPECT_EQ(press(Key::kEnter), std::nullopt);
  EXPECT_THAT(model_->message(), HasSubstr("batch_size"));
  EXPECT_EQ(model_->mode(), WatchModel::kAdd) << "to be mended";
  press(Key::kBackspace);
  press("8");
  const auto request = press(Key::kEnter);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->kind, WatchRequest::kAdd);
  EXPECT_EQ(request->values.at("batch_size"), tune::Value(8));
  press("a");
  press(Key::kEscape);
  EXPECT_EQ(model_->mode(), WatchModel::kTable);
}

TEST_F(StudyWatch, AStudyThatNobodyRunsIsOnlyLookedAt) {
  study_.set_tuner({}, {});
  for (const char* key : {"x", "p", "a"}) {
    EXPECT_EQ(press(key), std::nullopt);
    EXPECT_THAT(model_->message(), HasSubstr("it can only be looked at"));
    EXPECT_EQ(model_->mode(), WatchModel::kTable);
  }
  EXPECT_THAT(drawn(), HasSubstr("no tuner runs it; it ran"));
  EXPECT_EQ(press("q")->kind, WatchRequest::kQuit);
}

TEST_F(StudyWatch, IsDrawnAtAnySize) {
  for (const Key::Kind kind : {Key::kNothing, Key::kEnter}) {
    press(kind);
    for (size_t columns : {1, 20, 39, 40, 80, 300}) {
      for (size_t rows : {1, 9, 10, 11, 24, 100}) drawn(columns, rows);
    }
  }
  EXPECT_THAT(drawn(39, 30), HasSubstr("too small: 39x30"));
  press("?");
  EXPECT_THAT(drawn(80, 24), HasSubstr("pause it at its next report"));
  EXPECT_THAT(drawn(40, 10), HasSubstr("┌"));
  press("?s");
  EXPECT_THAT(drawn(40, 10), HasSubstr("sort by"));
}

TEST_F(StudyWatch, NamesFromAnywhereDoNoHarm) {
  WatchedStudy study(summary_of("学習\x1b]0;x\x07"));
  WatchModel model(study, kNow);
  Canvas canvas(80, 12);
  draw_watch(model, {}, kNow, canvas);
  EXPECT_THAT(canvas.line(0), HasSubstr("学習\\x1b]0;x\\x07"));
  EXPECT_THAT(canvas.line(5), HasSubstr("no trial yet"));
}

}  // namespace
}  // namespace muster::cli
