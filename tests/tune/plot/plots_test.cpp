// The pictures of a study: what is drawn of which trial, and where.
#include <cmath>
#include <map>

#include <gmock/gmock.h>

#include "muster/base/text.h"
#include "muster/tune/plot/chart.h"
#include "muster/tune/plot/plot.h"

#include "tests/support/error_of.h"
#include "tests/tune/plot/drawn_study.h"

namespace muster::tune {
namespace {

using test::commands_of;
using test::draw;
using test::item_commands;
using test::many_trials;
using test::says;
using test::small_study;
using testing::HasSubstr;
using testing::SizeIs;
using track::BoxCommand;
using track::Ink;
using track::LineCommand;
using track::MarkCommand;
using track::Shape;

/// The axis at the bottom: from the left to the right end of the box.
LineCommand bottom_axis(const track::Picture& picture) {
  for (const LineCommand& line : commands_of<LineCommand>(picture)) {
    if (line.ink == Ink::kAxis && line.points.size() == 2 && line.points[0].y == line.points[1].y)
      return line;
  }
  ADD_FAILURE() << "no axis";
  return {.points = {{0, 0}, {1, 0}}};
}

TEST(HistoryPlot, HasEachTrialAtItsResultAndTheBestSoFar) {
  const PlotStudy study = plot_study(small_study());
  const auto pictures = draw("history", study);
  ASSERT_THAT(pictures, SizeIs(1));
  const auto axis = bottom_axis(pictures[0]);
  const double left = axis.points[0].x, right = axis.points[1].x, bottom = axis.points[0].y;
  EXPECT_EQ(bottom, 250) << "290 high, 40 below";
  // Results are 0.1 … 0.8 with 4 % of 0.7 as room: 0.072 … 0.828 on 60 … 250.
  const auto y = [&](double result) { return 250 - (result - 0.072) / 0.756 * 190; };
  const auto marks = commands_of<MarkCommand>(pictures[0], 0);
  ASSERT_THAT(marks, SizeIs(1));
  EXPECT_EQ(marks[0].shape, Shape::kDot);
  EXPECT_NEAR(marks[0].x, left, 1e-9);
  EXPECT_NEAR(marks[0].y, y(0.4), 1e-9);
  const auto pruned = commands_of<MarkCommand>(pictures[0], 1);
  ASSERT_THAT(pruned, SizeIs(1));
  EXPECT_EQ(pruned[0].shape, Shape::kRing);
  EXPECT_NEAR(pruned[0].x, left + (right - left) / 4, 1e-9);
  EXPECT_NEAR(pruned[0].y, y(0.8), 1e-9);
  const auto failed = commands_of<MarkCommand>(pictures[0], 2);
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_EQ(failed[0].shape, Shape::kCross);
  EXPECT_EQ(failed[0].ink, Ink::kBad);
  EXPECT_THAT(commands_of<MarkCommand>(pictures[0], 3), SizeIs(2)) << "also as the best";
  // The best so far falls from 0.4 to 0.1 at trial 3; trial 4 still runs.
  for (const LineCommand& line : commands_of<LineCommand>(pictures[0])) {
    if (line.width != 2) continue;
    ASSERT_THAT(line.points, SizeIs(4));
    EXPECT_NEAR(line.points[0].y, y(0.4), 1e-9);
    EXPECT_NEAR(line.points[2].x, left + 0.75 * (right - left), 1e-9);
    EXPECT_NEAR(line.points[2].y, y(0.1), 1e-9);
    EXPECT_NEAR(line.points[3].x, right, 1e-9);
  }
  EXPECT_TRUE(says(pictures[0], "lower is better"));
}

TEST(HistoryPlot, RisesWhereHigherIsBetter) {
  PlotInput input = small_study();
  input.facts.mode = Mode::kMax;
  const auto pictures = draw("history", plot_study(input));
  EXPECT_TRUE(says(pictures[0], "higher is better"));
  for (const LineCommand& line : commands_of<LineCommand>(pictures[0])) {
    if (line.width == 2) {
      EXPECT_GT(line.points.front().y, line.points.back().y);
    }
  }
}

TEST(SlicePlot, HasAPictureForEachParameterThatVaries) {
  const PlotStudy study = plot_study(small_study());
  const auto pictures = draw("slice", study);
  ASSERT_THAT(pictures, SizeIs(3));
  EXPECT_EQ(pictures[0].title(), "lr");
  EXPECT_THAT(item_commands<MarkCommand>(pictures[0]), SizeIs(4)) << "all but the failed one";
  EXPECT_THAT(item_commands<MarkCommand>(pictures[1]), SizeIs(2)) << "those that have momentum";
  EXPECT_TRUE(says(pictures[1], "3 of 5 trials have it"));
  EXPECT_TRUE(says(pictures[0], "lr, logarithmic"));
  // lr is 1e-3 … 0.1: two decades with 4 % room; 0.01 is in the middle.
  const auto axis = bottom_axis(pictures[0]);
  EXPECT_NEAR(commands_of<MarkCommand>(pictures[0], 3)[0].x,
              (axis.points[0].x + axis.points[1].x) / 2,
              1e-6);
  EXPECT_THAT(draw("slice", study, {3}), SizeIs(1)) << "a constant one where it is named";
}

TEST(SlicePlot, KeepsTrialsOfACategoryWithinItsPart) {
  const auto pictures = draw("slice", plot_study(small_study()), {2});
  const auto axis = bottom_axis(pictures[0]);
  const double left = axis.points[0].x, width = axis.points[1].x - left;
  const double adam = (commands_of<MarkCommand>(pictures[0], 3)[0].x - left) / width;
  const double sgd = (commands_of<MarkCommand>(pictures[0], 0)[0].x - left) / width;
  EXPECT_GE(adam, 0.1);
  EXPECT_LE(adam, 0.4);
  EXPECT_GE(sgd, 0.6);
  EXPECT_LE(sgd, 0.9);
}

TEST(ParallelPlot, HasALineForEachTrialWithAResultTheBestOnTop) {
  const auto pictures = draw("parallel", plot_study(small_study()));
  const auto lines = item_commands<LineCommand>(pictures[0]);
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_EQ(lines.back().item, 3);
  EXPECT_GT(lines.back().width, lines.front().width);
  EXPECT_EQ(lines.back().ink, track::scale_ink(1));
  for (const LineCommand& line : lines) EXPECT_THAT(line.points, SizeIs(4)) << "loss and three";
  EXPECT_TRUE(says(pictures[0], "not set"));
  const double foot = commands_of<LineCommand>(pictures[0], 3)[0].points[2].y;
  EXPECT_GT(foot, commands_of<LineCommand>(pictures[0], 0)[0].points[2].y) << "below the axis";
}

TEST(ContourPlot, HasAPairOfParametersWithTrialsOverAField) {
  const PlotStudy study = plot_study(many_trials(200));
  const auto pictures = draw("contour", study);
  ASSERT_THAT(pictures, SizeIs(1));
  EXPECT_EQ(pictures[0].title(), "x and y");
  EXPECT_THAT(item_commands<MarkCommand>(pictures[0]), SizeIs(200));
  EXPECT_GT(commands_of<BoxCommand>(pictures[0]).size(), 200u);
  EXPECT_THAT(draw("contour", plot_study(small_study())), SizeIs(3)) << "pairs of three";
  EXPECT_THAT(draw("contour", plot_study(small_study()), {0, 2}), SizeIs(1));
}

TEST(IntermediatePlot, HasACurveForEachTrialThatReported) {
  const auto pictures = draw("intermediate", plot_study(small_study()));
  const auto lines = item_commands<LineCommand>(pictures[0]);
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_EQ(lines.back().item, 3) << "the best on top";
  EXPECT_THAT(lines.back().points, SizeIs(9));
  EXPECT_THAT(commands_of<MarkCommand>(pictures[0], 4), SizeIs(1)) << "one report is a dot";
  const auto ends = commands_of<MarkCommand>(pictures[0], 1);
  ASSERT_THAT(ends, SizeIs(1));
  EXPECT_EQ(ends[0].shape, Shape::kBar) << "stopped early";
}

TEST(IntermediatePlot, IsCutWhereAValueIsNotFinite) {
  PlotInput input = small_study();
  input.trials[0].rows[4].metrics[0].second = NAN;
  const auto pictures = draw("intermediate", plot_study(input));
  EXPECT_THAT(commands_of<LineCommand>(pictures[0], 0), SizeIs(2));
}

TEST(RungsPlot, HasABarForEachRungAsHighAsTrialsCame) {
  const auto pictures = draw("rungs", plot_study(small_study()));
  // Bars: 3 went on and 1 is there; 2 went on, 1 stopped; 2 complete.
  const auto boxes = commands_of<BoxCommand>(pictures[0]);
  ASSERT_THAT(boxes, SizeIs(5));
  EXPECT_NEAR(boxes[0].height, 3 * boxes[1].height, 1e-9);
  EXPECT_NEAR(boxes[0].y, boxes[1].y + boxes[1].height, 1e-9);
  EXPECT_TRUE(says(pictures[0], "4 \u2192 3"));
  EXPECT_TRUE(says(pictures[0], "3 \u2192 2"));
}

TEST(TimelinePlot, HasABarForEachAttemptAndRunsUpToNow) {
  PlotInput input = small_study();
  input.trials[0].ran = {{1000, 1005}, {1015, 1020}};
  const auto pictures = draw("timeline", plot_study(input));
  const auto bars = commands_of<BoxCommand>(pictures[0], 0);
  ASSERT_THAT(bars, SizeIs(2));
  const auto axis = bottom_axis(pictures[0]);
  const double width = axis.points[1].x - axis.points[0].x;  // 1000 … 1050
  EXPECT_NEAR(bars[1].x - axis.points[0].x, 0.3 * width, 1e-6);
  EXPECT_NEAR(bars[1].width, 0.1 * width, 1e-6);
  const auto running = commands_of<BoxCommand>(pictures[0], 4);
  ASSERT_THAT(running, SizeIs(1));
  EXPECT_NEAR(running[0].x + running[0].width, axis.points[1].x, 1e-6);
}

TEST(EdfPlot, RisesToOneOverCompletedTrials) {
  const auto pictures = draw("edf", plot_study(small_study()));
  for (const LineCommand& line : commands_of<LineCommand>(pictures[0])) {
    if (line.width != 2) continue;
    // From 0 to a half at 0.1, to one at 0.4.
    ASSERT_THAT(line.points, SizeIs(6));
    EXPECT_NEAR(line.points[2].y, (60 + 250) / 2., 1e-9);
    EXPECT_NEAR(line.points[4].y, 60, 1e-9);
  }
}

TEST(ImportancePlot, HasABarForEachShare) {
  PlotInput input = small_study();
  input.importance = {{"lr", 0.75}, {"momentum", 0.25}};
  const auto boxes = commands_of<BoxCommand>(draw("importance", plot_study(input))[0]);
  ASSERT_THAT(boxes, SizeIs(2));
  EXPECT_NEAR(boxes[0].width, 3 * boxes[1].width, 1e-9);
}

/// Everything in it is a number, and near the picture.
void expect_drawable(const track::Picture& picture) {
  const auto inside = [&](double x, double y) {
    EXPECT_TRUE(x > -50 && x < picture.width() + 50 && y > -50 && y < picture.height() + 50)
        << picture.title() << ' ' << x << ' ' << y;
  };
  for (const track::DrawCommand& command : picture.commands()) {
    if (const auto* line = std::get_if<LineCommand>(&command)) {
      for (const track::Point& point : line->points) inside(point.x, point.y);
    } else if (const auto* box = std::get_if<BoxCommand>(&command)) {
      inside(box->x, box->y);
      inside(box->x + box->width, box->y + box->height);
    } else if (const auto* mark = std::get_if<MarkCommand>(&command)) {
      inside(mark->x, mark->y);
    } else {
      const auto& words = std::get<track::TextCommand>(command);
      inside(words.x, words.y);
    }
  }
}

void expect_all_drawable(PlotInput input) {
  const PlotStudy study = plot_study(std::move(input));
  std::vector<size_t> every(study.axes.size());
  for (size_t i = 0; i < every.size(); ++i) every[i] = i;
  for (const PlotEntry* kind : ordered_plots()) {
    for (const PlotOptions& options : {PlotOptions{}, PlotOptions{.parameters = every}}) {
      const auto pictures = kind->draw(study, options);
      EXPECT_FALSE(pictures.empty()) << kind->name;
      for (const track::Picture& picture : pictures) expect_drawable(picture);
    }
  }
}

TEST(Plots, OfStrangeStudiesDrawWhatThereIs) {
  expect_all_drawable(small_study());
  PlotInput empty = small_study();
  empty.trials.clear();
  expect_all_drawable(empty);
  empty.facts.parameters.clear();
  expect_all_drawable(empty);
  PlotInput none = small_study();
  for (TrialHistory& trial : none.trials) {
    trial.last = trial.best = NAN;
    for (auto& row : trial.rows) row.metrics[0].second = NAN;
  }
  expect_all_drawable(none);
  PlotInput one = small_study();
  one.trials.resize(1);
  expect_all_drawable(one);
  PlotInput huge = small_study();
  huge.trials[0].last = 1.7e308;
  huge.trials[1].last = -1.7e308;
  huge.trials[3].last = INFINITY;
  expect_all_drawable(huge);
  PlotInput waiting = small_study();
  for (TrialHistory& trial : waiting.trials) {
    trial = {.number = trial.number, .values = trial.values, .last = NAN, .best = NAN};
  }
  expect_all_drawable(waiting);
}

TEST(Plots, OfHundredsOfCategoriesAndLongNamesStayWithinThePicture) {
  PlotInput input = many_trials(300);
  input.facts.name = std::string(500, 'n') + "<&\">";
  input.facts.metric = "val/" + std::string(200, 'm');
  input.facts.parameters = {{std::string(300, 'p'), ""}, {"\xff\xfe", ""}};
  for (TrialHistory& trial : input.trials)
    trial.values = {concat("category <", trial.number, "> & ", std::string(80, 'c')), trial.number};
  expect_all_drawable(std::move(input));
}

TEST(Plots, OfFiftyParametersAreAFewWithANote) {
  PlotInput input = many_trials(30);
  input.facts.parameters.clear();
  for (int p = 0; p < 50; ++p) input.facts.parameters.push_back({concat("p", p), "uniform(0, 1)"});
  for (TrialHistory& trial : input.trials) {
    const double x = trial.last;
    trial.values.assign(50, x);
  }
  const PlotStudy study = plot_study(input);
  EXPECT_THAT(draw("slice", study), SizeIs(25));
  EXPECT_TRUE(says(draw("slice", study).back(), "26 more parameters"));
  EXPECT_THAT(draw("parallel", study)[0].title(), "Parallel coordinates");
  expect_all_drawable(input);
}

/// Trials of two objectives, the last one beyond a constraint: the front is 0, 1 and 3.
PlotInput two_objectives() {
  PlotInput input = small_study();
  input.facts.metric = "accuracy";
  input.facts.mode = Mode::kMax;
  input.facts.goals = {.objectives = {{"accuracy", Mode::kMax}, {"step_s", Mode::kMin}},
                       .constraints = {{"peak_mib", true, 900}}};
  constexpr double kResults[][3] = {
      {0.9, 3, -1}, {0.7, 2, -1}, {NAN, NAN, NAN}, {0.5, 1, 0}, {0.95, 0.5, 10}};
  for (size_t i = 0; i < input.trials.size(); ++i) {
    TrialHistory& trial = input.trials[i];
    if (i != 2) trial.state = TrialState::kComplete;
    trial.last = trial.best = kResults[i][0];
    trial.goals = {.results = {kResults[i][0], kResults[i][1]}, .violations = {kResults[i][2]}};
  }
  return input;
}

TEST(Plots, OfSeveralObjectivesDrawTheFrontAndWhatIsBeyondTheConstraints) {
  const PlotStudy study = plot_study(two_objectives());
  EXPECT_EQ(study.front, (std::vector<size_t>{0, 1, 3}));
  EXPECT_EQ(study.best, 0u) << "on the front, and best in the first objective";
  const auto pictures = draw("pareto", study);
  ASSERT_THAT(pictures, SizeIs(1));
  std::map<int64_t, track::Shape> shapes;
  for (const auto& command : pictures[0].commands()) {
    if (const auto* mark = std::get_if<MarkCommand>(&command); mark != nullptr && mark->item >= 0)
      shapes[mark->item] = mark->shape;
  }
  using track::Shape;
  EXPECT_EQ(
      shapes,
      (std::map<int64_t, Shape>{
          {0, Shape::kDiamond}, {1, Shape::kDiamond}, {3, Shape::kDiamond}, {4, Shape::kCross}}));
  expect_all_drawable(two_objectives());
  PlotInput other = two_objectives();
  other.objective = 1;
  const PlotStudy by_time = plot_study(std::move(other));
  EXPECT_EQ(by_time.facts.metric, "step_s");
  EXPECT_EQ(by_time.best, 3u);
  EXPECT_EQ(by_time.results[3], 1);
}

TEST(Plots, AreNamedWithASuggestionForASlip) {
  EXPECT_THAT(test::refusal_of([] { plots_named(std::vector<std::string>{"histry"}); }),
              HasSubstr("unknown kind of plot \"histry\""));
  EXPECT_THAT(plots_named({}, /*several=*/true), SizeIs(plots().size()));
  EXPECT_THAT(plots_named({}), SizeIs(plots().size() - 1)) << "one objective has no front";
  const auto named = plots_named(std::vector<std::string>{"slice", "history", "slice"});
  ASSERT_THAT(named, SizeIs(2));
  EXPECT_EQ(named[0]->name, "slice");
  EXPECT_THAT(test::refusal_of(
                  [] { parameters_named(std::vector<std::string>{"Ir"}, small_study().facts); }),
              HasSubstr("did you mean \"lr\"?"));
}

}  // namespace
}  // namespace muster::tune
