// The result against each parameter.
#include <algorithm>
#include <cmath>

#include "muster/base/text.h"
#include "muster/tune/plot/chart.h"
#include "muster/tune/plot/plot.h"

namespace muster::tune {
namespace {

using track::Ink;

constexpr size_t kMostSlices = 24;        // unless named
constexpr size_t kMarksOfSlices = 24000;  // of all together

/// "31 of 60 trials have it".
std::string presence_note(const PlotStudy& study, size_t parameter) {
  const auto has = std::ranges::count_if(
      study.trials, [&](const TrialHistory& trial) { return !trial.values[parameter].is_none(); });
  const auto count = static_cast<std::ptrdiff_t>(study.trials.size());
  return has == count ? "" : concat(has, " of ", count, " trials have it");
}

track::Picture one_slice(const PlotStudy& study,
                         size_t parameter,
                         const ValueAxis& y,
                         size_t most) {
  const ValueAxis& x = study.axes[parameter];
  Chart chart(kHalfWidth, kChartHeight, x.name());
  chart.set_axes(chart_axis(x, 6), {metric_title(study), y.ticks(5)});
  const std::vector<size_t> trials = shown_trials(study, most);
  chart.note(both_notes(both_notes(presence_note(study, parameter), infinite_note(study)),
                        thinned_note(study, trials.size())));
  chart.scale_legend("first trial", "last");
  const double last = std::max(1.0, static_cast<double>(study.trials.size()) - 1);
  for (const size_t i : trials) {
    const auto place = x.place(study.trials[i].values[parameter]);
    if (!place || std::isnan(study.results[i])) continue;
    trial_mark(chart,
               study,
               i,
               chart.px(spread(*place, x.slot(), i)),
               chart.py(y.at(study.results[i])),
               track::scale_ink(0.1 + 0.9 * static_cast<double>(i) / last));
  }
  return std::move(chart).take();
}

std::vector<track::Picture> draw_slices(const PlotStudy& study, const PlotOptions& options) {
  std::vector<double> finite;
  for (const double result : study.results) {
    if (std::isfinite(result)) finite.push_back(result);
  }
  std::vector<size_t> parameters =
      options.parameters.empty() ? varying_parameters(study) : options.parameters;
  if (finite.empty() || parameters.empty()) {
    const std::string why = finite.empty()
                                ? concat("No trial has a finite ", study.facts.metric, " yet.")
                                : "All trials have the same parameters.";
    return {empty_chart("Slices", why)};
  }
  const size_t left_out = options.parameters.empty() && parameters.size() > kMostSlices
                              ? parameters.size() - kMostSlices
                              : 0;
  parameters.resize(parameters.size() - left_out);
  const ValueAxis y(study.facts.metric, finite);
  std::vector<track::Picture> out;
  for (const size_t parameter : parameters)
    out.push_back(one_slice(study, parameter, y, kMarksOfSlices / parameters.size()));
  if (left_out > 0) {
    out.push_back(
        empty_chart(concat(left_out, left_out == 1 ? " more parameter" : " more parameters"),
                    "muster study plot --kind slice --param NAME draws it."));
  }
  return out;
}

}  // namespace

extern constinit const PlotEntry slice_entry{
    "slice", "the result against each parameter", 40, &draw_slices};

}  // namespace muster::tune
