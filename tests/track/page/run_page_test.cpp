#include "muster/track/page/run_page.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/track/page/curves.h"

namespace muster::track {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Fails unless every tag of the markup is closed in order, as XML asks; HTML's void elements are
/// let through. Returns the names of all elements.
std::set<std::string> elements(const std::string& markup) {
  const std::set<std::string> empty{"meta", "!DOCTYPE"};
  std::set<std::string> names;
  std::vector<std::string> open;
  for (size_t at = 0; (at = markup.find('<', at)) != std::string::npos; ++at) {
    if (!open.empty() && open.back() == "script" && markup.compare(at, 9, "</script>") != 0)
      continue;
    const size_t end = markup.find('>', at);
    EXPECT_NE(end, std::string::npos);
    if (end == std::string::npos) break;
    const std::string tag = markup.substr(at + 1, end - at - 1);
    const std::string name =
        tag.substr(tag[0] == '/', tag.find_first_of(" /\n", 1) - (tag[0] == '/'));
    names.insert(name);
    EXPECT_EQ(std::count(tag.begin(), tag.end(), '"') % 2, 0) << tag;
    if (tag[0] == '/') {
      EXPECT_TRUE(!open.empty() && open.back() == tag.substr(1)) << tag;
      if (!open.empty()) open.pop_back();
    } else if (tag.back() != '/' && !empty.contains(name)) {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty()) << open.back();
  return names;
}

std::vector<MetricsRow> run(const std::string& phase = "train") {
  std::vector<MetricsRow> rows;
  for (int64_t step = 10; step <= 100; step += 10) {
    const double loss = 100 * std::exp(-static_cast<double>(step) / 10);
    rows.push_back(
        {step, 1 + (step - 1) / 50, phase, {{"loss", loss}, {"lr", 0.1}, {"grad_norm", 1}}});
    if (step % 50 == 0) {
      rows.push_back(
          {step, step / 50, "validate", {{"loss", loss}, {"accuracy", 0.5}, {"elapsed_s", 1}}});
    }
  }
  return rows;
}

TEST(CurvesOf, MakesAPanelForEachQuantityAndASeriesForEachPhase) {
  const Curves curves = curves_of(run(), "title");
  std::vector<std::string> titles;
  for (const Panel& panel : curves.panels) titles.push_back(panel.title);
  EXPECT_THAT(titles, testing::ElementsAre("Loss", "Accuracy", "Learning rate", "grad_norm"));
  ASSERT_EQ(curves.panels[0].series.size(), 2u);
  EXPECT_EQ(curves.panels[0].series[0].name, "train");
  EXPECT_EQ(curves.panels[0].series[0].points.size(), 10u);
  EXPECT_EQ(curves.panels[0].series[1].points.size(), 2u);
}

TEST(CurvesOf, MarksEpochsWhereTheyEnded) {
  const auto ends = [](const std::vector<MetricsRow>& rows, int64_t steps_per_epoch) {
    std::vector<int64_t> steps;
    for (const EpochMark& mark : curves_of(rows, "", steps_per_epoch).epochs)
      steps.push_back(mark.last_step);
    return steps;
  };
  EXPECT_THAT(ends(run(), 50), testing::ElementsAre(50, 100));
  EXPECT_THAT(ends(run(), 0), testing::ElementsAre(50));  // whether the second one is over?
  // Left in the middle, and logged every tenth step only.
  const std::vector<MetricsRow> left{{10, 1, "train", {{"loss", 2}}},
                                     {20, 2, "train", {{"loss", 1}}}};
  EXPECT_THAT(ends(left, 11), testing::ElementsAre(11));
  EXPECT_THAT(ends({{1, 1, "train", {{"loss", 2}}}}, 11), testing::IsEmpty());
}

TEST(CurvesOf, LeavesTimesOutAndNamesWhatMusterWritesWithItsUnit) {
  const std::vector<MetricsRow> rows{
      {1, 1, "train", {{"loss", 2}, {"elapsed_s", 1}, {"gradient_norm", 3}, {"epoch_s", 1}}},
      {2, 1, "test", {{"loss", 2}, {"accuracy", 0.8}, {"top_k_accuracy", 0.9}}}};
  const Curves curves = curves_of(rows, "");
  ASSERT_EQ(curves.panels.size(), 4u);
  EXPECT_EQ(curves.panels[2].title, "Gradients before clipping");
  EXPECT_EQ(curves.panels[3].title, "Top-k accuracy");
  EXPECT_TRUE(curves.panels[3].is_share);
  const std::string svg = render_curves_svg(curves);
  for (const char* title : {"Loss (nats)", "Top-k accuracy (share)", "optimizer step"})
    EXPECT_THAT(svg, HasSubstr(title));
}

// A regression's loss is in squares of something, or in the thing itself.
TEST(CurvesOf, ALossWithoutAnAccuracyHasNoUnit) {
  const std::vector<MetricsRow> rows{{1, 1, "train", {{"loss", 2}, {"rmse", 3}}}};
  EXPECT_EQ(curves_of(rows, "").panels.at(0).unit, "");
}

// Values near 1 got an axis to 1.4.
TEST(CurvesSvg, NoAxisOfAShareEndsBeyondOne) {
  for (const double value : {0.0, 0.3, 0.96, 1.0}) {
    const std::vector<MetricsRow> one{{1, 1, "test", {{"accuracy", value}}}};
    const std::string svg = render_curves_svg(curves_of(one, ""));
    for (const char* label : {">1.1<", ">1.2<", ">1.4<", ">1.5<", ">-"})
      EXPECT_THAT(svg, Not(HasSubstr(label))) << value;
  }
}

TEST(CurvesSvg, IsWellFormedAndUsesALogarithmWhereTheLossSpansDecades) {
  const std::string svg = render_curves_svg(curves_of(run(), "a run"));
  elements(svg);
  EXPECT_THAT(svg, HasSubstr("logarithmic"));
  EXPECT_THAT(svg, HasSubstr("validate"));
  auto flat = run();
  for (auto& row : flat) row.values = {{"loss", 1.0 + static_cast<double>(row.step) / 100}};
  EXPECT_THAT(render_curves_svg(curves_of(flat, "")), Not(HasSubstr("logarithmic")));
}

TEST(CurvesSvg, LeavesAGapAndAMarkAtNan) {
  std::vector<MetricsRow> rows = run();
  const std::string whole = render_curves_svg(curves_of(rows, ""));
  rows[4].values[0].second = NAN;
  const std::string gap = render_curves_svg(curves_of(rows, ""));
  EXPECT_THAT(whole, Not(HasSubstr("class=\"bad\"")));
  EXPECT_THAT(gap, HasSubstr("class=\"bad\""));
  EXPECT_THAT(gap, Not(HasSubstr("nan")));
}

// Its axes ended in the middle of the picture.
TEST(CurvesSvg, OnePanelHasTheWholeRow) {
  const Panel panel{.title = "ms a step", .series = {{"measured", {{1, 3}, {2, 2}}}}};
  const auto widest_grid_line = [](const std::string& svg) {
    double right = 0;
    for (const auto& line : split(svg, '\n')) {
      if (line.starts_with("<path class=\"grid\""))
        right = std::max(right, std::stod(line.substr(line.find('L') + 1)));
    }
    return right;
  };
  const double alone = widest_grid_line(render_curves_svg({.title = "", .panels = {panel}}));
  const double of_two =
      widest_grid_line(render_curves_svg({.title = "", .panels = {panel, panel}}));
  EXPECT_GT(of_two, 0);
  EXPECT_GT(alone, 2 * of_two);
}

TEST(CurvesSvg, OfNothingOrOfOneRowIsStillAPicture) {
  elements(render_curves_svg({}));
  elements(render_curves_svg(curves_of({}, "")));
  for (const double value : {0.0, -1e308, 1e-308, double{NAN}, double{INFINITY}}) {
    const std::vector<MetricsRow> one{{INT64_MAX, 3, "x", {{"loss", value}}}};
    const std::string svg = render_curves_svg(curves_of(one, "one"));
    elements(svg);
    EXPECT_THAT(svg, Not(HasSubstr("nan ")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
  }
}

TEST(CurvesSvg, OfAHundredThousandRowsStaysSmall) {
  std::vector<MetricsRow> rows;
  for (int64_t step = 0; step < 100000; ++step) {
    const double loss = step % 3 ? static_cast<double>(step * 7919 % 1000) : NAN;
    rows.push_back(
        {step, step / 10, "train", {{"loss", loss}, {"lr", static_cast<double>(step % 977)}}});
  }
  EXPECT_LT(render_curves_svg(curves_of(rows, "long")).size(), 3'000'000u);
}

TEST(RunPage, ShowsAllThatItIsGivenAndIsWellFormed) {
  RunPage page{.title = "lenet", .subtitle = "3m07s", .results = {{"test accuracy", "0.9123"}}};
  page.metrics = run();
  page.confusion = {{"cat", "dog"}, {8, 2, 1, 9}};
  page.files = {{"checkpoints/step 5", "best"}};
  page.about = {{"command", "muster train --lr '1 2'"}, {"host", "h & h"}};
  page.plan = {{"model", "lenet"}, {"optimizer", {{"name", "sgd"}, {"lr", 0.1}}}, {"empty", ""}};
  const std::string html = render_run_page(page);
  elements(html);
  for (const char* part : {"0.9123",
                           "Confusion matrix",
                           "80.0",
                           "90.0",
                           "./checkpoints/step%205",
                           "best",
                           "--lr &#39;1 2&#39;</dd>",
                           "h &amp; h",
                           "optimizer.lr",
                           "data-curves"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
}

TEST(RunPage, LoadsNothingFromAnywhere) {
  RunPage page{.title = "x", .metrics = run()};
  const std::string html = render_run_page(page);
  for (const char* part : {"http:", "https:", "src=", "url(", "@import", "<link"}) {
    EXPECT_THAT(html, Not(HasSubstr(part)));
  }
}

// Each text that comes from outside tries to become markup; the page must have the same elements as
// one with harmless texts.
TEST(RunPage, TextFromOutsideNeverBecomesMarkup) {
  const auto page_with = [](const std::string& text) {
    RunPage page{.title = text, .subtitle = text, .results = {{text, text}}};
    page.metrics = run(text);
    for (auto& row : page.metrics) row.values.emplace_back(text, 1);
    page.confusion = {{text, text}, {1, 2, 3, 4}};
    page.files = {{text, text}};
    page.about = {{text, text}};
    page.plan = {{text, text}, {"list", {text}}};
    return render_run_page(page);
  };
  const std::set<std::string> harmless = elements(page_with("harmless"));
  for (const std::string attack : {"<script>alert(1)</script>",
                                   "\"><img src=x onerror=alert(1)>",
                                   "'/><b>",
                                   "</title></style></svg><i>",
                                   "]]>&lt;u&gt;",
                                   "\xff<\xfe"}) {
    const std::string html = page_with(attack);
    EXPECT_EQ(elements(html), harmless) << attack;
    EXPECT_THAT(html, Not(HasSubstr(attack))) << attack;
  }
  EXPECT_THAT(page_with("javascript:alert(1)"), Not(HasSubstr("href=\"javascript")));
  EXPECT_THAT(page_with("//host/x"), HasSubstr("href=\".///host/x\""));
}

TEST(Confusion, OfManyClassesListsTheLargestConfusions) {
  ConfusionMatrix confusion;
  for (int i = 0; i < 40; ++i) confusion.classes.push_back(concat("class", i));
  confusion.counts.assign(40 * 40, 0);
  confusion.counts[3 * 40 + 5] = 7;
  confusion.counts[3 * 40 + 3] = 93;
  const std::string html = confusion_html(confusion);
  EXPECT_THAT(html, HasSubstr("<td>class3</td><td>class5</td><td>7</td><td>7.0"));
  EXPECT_THAT(html, Not(HasSubstr("93")));
}

TEST(Confusion, RefusesCountsThatDoNotFit) {
  EXPECT_THROW(confusion_html({{"a", "b"}, {1, 2, 3}}), Error);
  EXPECT_THROW(confusion_html({{"a"}, {-1}}), Error);
}

}  // namespace
}  // namespace muster::track
