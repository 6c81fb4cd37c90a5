// The result over two parameters: the trials, on a field smoothed from their ranks.
#include <algorithm>
#include <cmath>

#include "muster/base/text.h"
#include "muster/tune/plot/chart.h"
#include "muster/tune/plot/plot.h"
#include "muster/tune/plot/smooth_field.h"

namespace muster::tune {
namespace {

using track::Ink;

constexpr size_t kMostParameters = 3;  // unless named: three pairs
constexpr size_t kNamedParameters = 6;
constexpr size_t kMostContourMarks = 1500;
constexpr double kContourHeight = 350;
constexpr int kColumns = 76, kRows = 50;

/// Where a trial is in the square; nothing if it lacks one of the two.
std::optional<track::Point> place_in(const PlotStudy& study, size_t trial, size_t x, size_t y) {
  const Values& values = study.trials[trial].values;
  const auto a = study.axes[x].place(values[x]), b = study.axes[y].place(values[y]);
  if (!a || !b) return std::nullopt;
  return track::Point{*a, *b};
}

/// The same where categories leave room for trials beside each other.
track::Point spread_in(const PlotStudy& study, size_t trial, size_t x, size_t y, track::Point at) {
  // Two sequences, so that trials of two categories do not lie on a line.
  return {spread(at.x, study.axes[x].slot(), trial),
          spread(at.y, study.axes[y].slot(), trial * trial)};
}

/// So many that each category has the same number of them.
int cells_along(int wanted, size_t slots) { return slots == 0 ? wanted : static_cast<int>(slots); }

/// Those that differ between trials, first those that most trials have.
std::vector<size_t> contour_parameters(const PlotStudy& study) {
  std::vector<size_t> parameters = varying_parameters(study);
  // Not of std::ranges, which clang 14 does not compile with libstdc++ 12.
  std::stable_partition(parameters.begin(), parameters.end(), [&](size_t p) {
    const auto has = std::ranges::count_if(
        study.trials, [&](const TrialHistory& trial) { return !trial.values[p].is_none(); });
    return 2 * static_cast<size_t>(has) > study.trials.size();
  });
  return parameters;
}

/// Cells of one colour beside each other are one box; where no trial is near there is none. Edges are
/// whole, so that neighbours have the same.
void draw_field(Chart& chart, const SmoothField& field) {
  for (int row = 0; row < field.rows(); ++row) {
    const double bottom = std::round(chart.py(static_cast<double>(row) / field.rows()));
    const double top = std::round(chart.py(static_cast<double>(row + 1) / field.rows()));
    for (int from = 0, to = 0; from < field.columns(); from = to) {
      const Ink ink =
          std::isnan(field.at(from, row)) ? Ink::kNone : track::scale_ink(field.at(from, row));
      for (to = from + 1; to < field.columns(); ++to) {
        const double value = field.at(to, row);
        if ((std::isnan(value) ? Ink::kNone : track::scale_ink(value)) != ink) break;
      }
      if (ink == Ink::kNone) continue;
      const double left = std::round(chart.px(static_cast<double>(from) / field.columns()));
      const double right = std::round(chart.px(static_cast<double>(to) / field.columns()));
      chart.add(track::BoxCommand{.x = left,
                                  .y = top,
                                  .width = right - left,
                                  .height = bottom - top,
                                  .fill = ink,
                                  .opacity = 0.55,
                                  .crisp = true});
    }
  }
}

track::Picture one_contour(const PlotStudy& study, size_t x, size_t y) {
  Chart chart(
      kHalfWidth, kContourHeight, concat(study.axes[x].name(), " and ", study.axes[y].name()));
  std::vector<size_t> trials = shown_trials(study, kMostContourMarks);
  chart.set_axes(chart_axis(study.axes[x], 6), chart_axis(study.axes[y], 6));
  chart.note(thinned_note(study, trials.size()));
  result_legend(chart, study);
  std::ranges::stable_sort(
      trials, {}, [&](size_t i) { return std::isnan(study.merits[i]) ? -1 : study.merits[i]; });
  const size_t x_slots = study.axes[x].categories(), y_slots = study.axes[y].categories();
  SmoothField field(cells_along(kColumns, x_slots), cells_along(kRows, y_slots), x_slots, y_slots);
  for (const size_t i : trials) {
    const auto at = place_in(study, i, x, y);
    if (at && !std::isnan(study.merits[i])) field.add(at->x, at->y, study.merits[i]);
  }
  field.smooth();
  draw_field(chart, field);
  for (const size_t i : trials) {
    const auto place = place_in(study, i, x, y);
    const bool waits = std::isnan(study.merits[i]) && !is_over(study.trials[i].state);
    if (!place || waits) continue;
    const track::Point at = spread_in(study, i, x, y, *place);
    if (std::isnan(study.merits[i])) {
      trial_mark(chart, study, i, chart.px(at.x), chart.py(at.y), Ink::kBad);
      continue;
    }
    chart.add(
        track::MarkCommand{.x = chart.px(at.x),
                           .y = chart.py(at.y),
                           .shape = study.best == i ? track::Shape::kDiamond : track::Shape::kDot,
                           .ink = track::scale_ink(study.merits[i]),
                           .radius = 3.2,
                           .outlined = true,
                           .item = static_cast<int64_t>(i)});
  }
  return std::move(chart).take();
}

std::vector<track::Picture> draw_contours(const PlotStudy& study, const PlotOptions& options) {
  std::vector<size_t> parameters =
      options.parameters.empty() ? contour_parameters(study) : options.parameters;
  const size_t most = options.parameters.empty() ? kMostParameters : kNamedParameters;
  if (parameters.size() > most) parameters.resize(most);
  if (!study.best || parameters.size() < 2) {
    const std::string why = !study.best
                                ? concat("No trial has a finite ", study.facts.metric, " yet.")
                                : "It takes two parameters that differ between trials.";
    return {empty_chart("Contours", why)};
  }
  std::vector<track::Picture> out;
  for (size_t a = 0; a < parameters.size(); ++a) {
    for (size_t b = a + 1; b < parameters.size(); ++b)
      out.push_back(one_contour(study, parameters[a], parameters[b]));
  }
  return out;
}

}  // namespace

extern constinit const PlotEntry contour_entry{
    "contour", "the result over two parameters", 50, &draw_contours};

}  // namespace muster::tune
