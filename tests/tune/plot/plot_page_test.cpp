// The page of a study, as a reader of XML sees it.
#include "muster/tune/plot/plot_page.h"

#include <limits>
#include <set>

#include <gmock/gmock.h>

#include "muster/base/json.h"
#include "muster/base/text.h"

#include "tests/tune/plot/drawn_study.h"

namespace muster::tune {
namespace {

using test::elements_of;
using test::many_trials;
using test::MarkupElement;
using test::small_study;
using testing::HasSubstr;
using testing::Not;

std::string page_of(PlotInput input) {
  return plot_page(plot_study(std::move(input)), plots_named({}), {});
}

size_t count(const std::vector<MarkupElement>& all, const std::string& name) {
  return static_cast<size_t>(
      std::ranges::count_if(all, [&](const auto& element) { return element.name == name; }));
}

TEST(PlotPage, HasEveryKindAndEveryTrial) {
  const auto all = elements_of(page_of(small_study()));
  std::set<std::string> kinds;
  for (const MarkupElement& element : all) {
    if (element.attributes.contains("data-kind")) kinds.insert(element.attribute("data-kind"));
  }
  EXPECT_EQ(kinds.size(), plots_named({}).size());
  EXPECT_EQ(count(all, "tr"), 6u) << "a head and five trials";
  std::vector<std::string> rows;
  for (const MarkupElement& element : all) {
    if (element.name == "tr" && element.attributes.contains("data-item"))
      rows.push_back(element.attribute("data-item"));
  }
  EXPECT_THAT(rows, testing::ElementsAre("3", "4", "0", "1", "2")) << "best first";
}

TEST(PlotPage, LoadsNothingAndForbidsIt) {
  const std::string page = page_of(small_study());
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* word : {"<link", "src=", "href=", "@import", "url(", "fetch("})
    EXPECT_THAT(page, Not(HasSubstr(word)));
}

TEST(PlotPage, EscapesWhatTheStudySays) {
  PlotInput input = small_study();
  input.facts.name = "a</title><script>alert(1)</script>&";
  input.facts.metric = "x<y";
  input.facts.parameters[2].name = "</script><b>";
  input.facts.parameters[2].domain = "";
  input.trials[0].values[2] = "<img src=x onerror=alert(2)> ]]> \xff";
  input.trials[0].reason = "stopped: 1 < 2 && \"so\"";
  const auto all = elements_of(page_of(input));
  EXPECT_EQ(count(all, "script"), 2u);
  EXPECT_EQ(count(all, "img"), 0u);
  EXPECT_EQ(count(all, "b"), 0u);
  for (const MarkupElement& element : all) {
    if (element.name == "title") {
      EXPECT_EQ(element.text, input.facts.name);
      break;
    }
  }
}

TEST(PlotPage, TellsItsScriptOfEachTrial) {
  const auto all = elements_of(page_of(small_study()));
  for (const MarkupElement& element : all) {
    if (element.attribute("id") != "trials") continue;
    const Json json = parse_json(element.text, "trials");
    EXPECT_EQ(json["names"].size(), 8u) << "trial, loss, four parameters, step, time";
    EXPECT_EQ(json["items"]["3"][0], "3, COMPLETE");
    EXPECT_EQ(json["items"]["3"][1], "0.1");
    EXPECT_EQ(json["items"]["3"][2], "0.01");
    EXPECT_TRUE(json["items"]["3"][3].is_null()) << "no momentum";
    return;
  }
  FAIL() << "no data";
}

TEST(PlotPage, OfTenThousandTrialsIsAFewMegabytes) {
  PlotInput input = many_trials(10000);
  input.facts.parameters.resize(2);
  for (int p = 2; p < 12; ++p) input.facts.parameters.push_back({concat("p", p), "uniform(0, 1)"});
  for (TrialHistory& trial : input.trials) trial.values.resize(12, trial.values[0]);
  const std::string page = page_of(std::move(input));
  EXPECT_LT(page.size(), 8u << 20);
  EXPECT_THAT(page, HasSubstr("2,000 of 10,000 trials are drawn"));
}

TEST(PlotPage, OfInfiniteAndHugeResultsIsDrawnWithoutThem) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double value : {-kInfinity, kInfinity, 1.7e308, -1.7e308}) {
    PlotInput input = small_study();
    for (const size_t trial : {0, 1}) input.trials[trial].last = input.trials[trial].best = value;
    const std::string page = page_of(input);
    elements_of(page);
    const size_t script = page.find("<script");
    for (const char* word : {"\"nan", "\"inf", " nan", " inf ", "-nan"})
      EXPECT_EQ(page.substr(0, script).find(word), std::string::npos) << value << ' ' << word;
  }
}

TEST(PlotPage, OfAnEmptyStudySaysSo) {
  PlotInput input = small_study();
  input.trials.clear();
  const std::string page = page_of(input);
  elements_of(page);
  EXPECT_THAT(page, HasSubstr("No trial has a loss yet."));
}

}  // namespace
}  // namespace muster::tune
