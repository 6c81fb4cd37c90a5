// The drawings are the tests: each schedule is seen as a staircase.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/pipeline/draw/gantt.h"
#include "muster/pipeline/draw/text_drawing.h"
#include "muster/pipeline/order/lower.h"
#include "muster/pipeline/schedule/schedule.h"
#include "muster/pipeline/simulate/simulator.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::pipeline {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Timeline unit_step(const std::string& spec, const PipelineSizes& sizes) {
  return Simulator(make_schedule(spec, sizes).lists).run(equal_stages(sizes.stages, {}));
}

std::string drawn(const std::string& spec, const PipelineSizes& sizes) {
  return '\n' + draw_text(unit_step(spec, sizes));
}

TEST(PipelineDrawing, Gpipe) {
  EXPECT_EQ(drawn("gpipe", {3, 3, 3}), R"(
rank 0  F0 F1 F2 ..................B0--- B1--- B2---
rank 1  ...F0 F1 F2 .........B0--- B1--- B2--- ......
rank 2  ......F0 F1 F2 B0--- B1--- B2--- ............
)");
}

TEST(PipelineDrawing, OneForwardOneBackward) {
  EXPECT_EQ(drawn("1f1b", {3, 3, 4}), R"(
rank 0  F0 F1 F2 ............B0--- F3 B1--- ...B2--- ...B3---
rank 1  ...F0 F1 ......B0--- F2 B1--- F3 B2--- ...B3--- ......
rank 2  ......F0 B0--- F1 B1--- F2 B2--- F3 B3--- ............
)");
}

TEST(PipelineDrawing, Interleaved) {
  EXPECT_EQ(drawn("interleaved", {4, 2, 2}), R"(
rank 0  0F0 0F1 2F0 2F1 ........2B0---- ....2B1---- 0B0---- 0B1----
rank 1  ....1F0 1F1 3F0 3B0---- 3F1 3B1---- 1B0---- 1B1---- ........
)");
}

TEST(PipelineDrawing, ZeroBubble) {
  EXPECT_EQ(drawn("zb1p", {3, 3, 4}), R"(
rank 0  F0 F1 F2 ......I0 W0 F3 I1 W1 I2 W2 I3 W3
rank 1  ...F0 F1 ...I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
rank 2  ......F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3
)");
}

TEST(PipelineDrawing, ZeroBubbleV) {
  EXPECT_EQ(drawn("zbv", {4, 2, 3}), R"(
rank 0  0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 3W2 0I1 0W1 0I2 0W2 ....
rank 1  ....1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1I1 2I2 1I2 1W1 2W2 1W2
)");
}

TEST(PipelineDrawing, FitsItsColumnsAndLosesNamesFirst) {
  const Timeline timeline = unit_step("1f1b", {4, 4, 8});
  for (const int64_t columns : {40, 60, 80, 200}) {
    const std::string text = draw_text(timeline, {.columns = columns});
    for (const std::string& line : split(text, '\n'))
      EXPECT_LE(static_cast<int64_t>(line.size()), columns);
  }
  EXPECT_THAT(draw_text(timeline, {.columns = 80}), HasSubstr("rank 3  ......F0B0- F1B1- "));
  EXPECT_THAT(draw_text(timeline, {.columns = 41}), HasSubstr("rank 3  ...FB0FB1"));
}

TEST(PipelineDrawing, MessagesThatTakeARanksTimeAreSeen) {
  const ActionLists lists = lower(parse_csv("0F0,0B0\n1F0,1B0\n"), Sends::kRendezvous);
  const StageTimes times{.forward_s = 1, .backward_s = 2, .activation_s = 1, .gradient_s = 1};
  const Timeline timeline = Simulator(lists, Sends::kRendezvous).run(equal_stages(2, times));
  EXPECT_EQ('\n' + draw_text(timeline), R"(
rank 0  F0 >>>.........<<<B0---
rank 1  ...<<<F0 B0--- >>>......
)");
}

TEST(PipelineDrawing, SummaryNamesStepBubbleAndIdleTime) {
  const Timeline timeline = unit_step("1f1b", {4, 4, 8});
  EXPECT_EQ(summary_text(timeline), "step 33, bubble 27.3 %, idle 9");
  EXPECT_EQ(summary_text(unit_step("zbv", {4, 2, 3})), "step 19, bubble 5.3 %, idle 0");
  Timeline measured = timeline;
  for (auto& spans : measured.ranks) {
    for (Span& span : spans) span = {span.action, 100 + span.start_s / 1e3, 100 + span.end_s / 1e3};
  }
  EXPECT_EQ(summary_text(measured, "s"), "step 33ms, bubble 27.3 %, idle 9ms");
  for (auto& spans : measured.ranks) {
    for (Span& span : spans) span = {span.action, span.start_s / 32, span.end_s / 32};
  }
  EXPECT_THAT(summary_text(measured, "s"), HasSubstr("idle 0.281ms")) << "not 0ms";
  EXPECT_EQ(draw_text(measured), draw_text(timeline));
}

TEST(PipelineDrawing, NothingIsDrawnOfNothing) {
  EXPECT_EQ(draw_text({}), "");
  EXPECT_EQ(summary_text({}), "step 0, bubble 0.0 %, idle 0");
  EXPECT_EQ(draw_text({.ranks = {{}}}), "rank 0\n");
  EXPECT_THAT(gantt_svg({}, {}), EndsWith("</svg>\n"));
}

size_t count_of(std::string_view text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(PipelineGantt, HasABarForEachActionATitleAnAxisAndALegend) {
  const std::string svg =
      gantt_svg(unit_step("zb1p", {4, 4, 8}), {.title = "ZB1P <4 ranks>", .unit = "F"});
  EXPECT_THAT(svg, StartsWith("<svg xmlns="));
  EXPECT_EQ(count_of(svg, "data-item="), 4u * 8 * 3);
  EXPECT_EQ(count_of(svg, ">rank "), 4u);
  EXPECT_THAT(svg, HasSubstr("ZB1P &lt;4 ranks&gt;"));
  EXPECT_THAT(svg, HasSubstr("time (F)"));
  for (const char* kind : {">forward<", ">backward, input<", ">backward, weights<"})
    EXPECT_EQ(count_of(svg, kind), 1u) << kind;
  EXPECT_THAT(svg, Not(HasSubstr(">backward<")));
  EXPECT_THAT(svg, Not(HasSubstr("paler")));
  EXPECT_THAT(gantt_svg(unit_step("zbv", {4, 2, 3}), {}), HasSubstr("paler: a rank&#39;s later"));
  EXPECT_THAT(svg, HasSubstr("<title>forward of stage 3, micro-batch 0 (3F0): 3 to 4 F</title>"));
}

TEST(PipelineGantt, IsAPngWhereTheFileSaysSo) {
  const Timeline timeline = unit_step("1f1b", {3, 3, 6});
  EXPECT_THAT(gantt_file(timeline, {.title = "as PNG"}, "a/step.png"), StartsWith("\x89PNG"));
  EXPECT_EQ(gantt_file(timeline, {.title = "a"}, "step.svg"), gantt_svg(timeline, {.title = "a"}));
  const test::Folder folder;
  check_gantt_file("--svg", folder.path() / "new.png");
  for (const auto& refused : {folder.path() / "step.pdf", folder.path() / "step", folder.path()})
    EXPECT_THAT(test::error_of([&] { check_gantt_file("--svg", refused); }), StartsWith("--svg: "))
        << refused;
}

TEST(PipelineGantt, ShowsShortStepsInTheUnitThatSuits) {
  Timeline timeline = unit_step("1f1b", {2, 2, 2});
  for (auto& spans : timeline.ranks) {
    for (Span& span : spans) span = {span.action, 5 + span.start_s / 1e3, 5 + span.end_s / 1e3};
  }
  const std::string svg = gantt_svg(timeline, {.title = "measured"});
  EXPECT_THAT(svg, HasSubstr("time (ms)"));
  EXPECT_THAT(svg, HasSubstr("(1F0): 1 to 2 ms"));
}

}  // namespace
}  // namespace muster::pipeline
