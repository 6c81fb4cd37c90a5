// How much of what the result is up to each parameter.
#include <algorithm>

#include "muster/base/text.h"
#include "muster/tune/plot/chart.h"
#include "muster/tune/plot/plot.h"

namespace muster::tune {
namespace {

constexpr size_t kMostBars = 20;
constexpr double kBarRow = 22;

std::vector<track::Picture> draw_importance(const PlotStudy& study, const PlotOptions&) {
  const std::string title = "Importance of parameters";
  if (study.importance.empty()) {
    return {empty_chart(
        title, "It takes two completed trials with a finite result and different parameters.")};
  }
  const size_t bars = std::min(study.importance.size(), kMostBars);
  const double height = 52 + kBarRow * static_cast<double>(bars);
  Chart chart(kHalfWidth, height, title);
  chart.note(concat("PED-ANOVA of the best ",
                    study.importance_of,
                    study.importance_of < kFewBestTrials ? " trials; so few say little" : " trials",
                    bars < study.importance.size() ? concat("; the first ", bars) : ""));
  chart.set_box(140, 46, 44, 8);
  for (size_t i = 0; i < bars; ++i) {
    const auto& [name, share] = study.importance[i];
    const double y = chart.top() + kBarRow * static_cast<double>(i);
    chart.text(chart.left() - 8, y + 14, track::cut_text(name, 130), track::Anchor::kEnd);
    chart.add(track::BoxCommand{.x = chart.left(),
                                .y = y + 3,
                                .width = std::max(1.0, share * (chart.right() - chart.left())),
                                .height = kBarRow - 7,
                                .fill = track::series_ink(0)});
    chart.text(chart.px(share) + 6, y + 14, fixed(share, 3));
  }
  return {std::move(chart).take()};
}

}  // namespace

extern constinit const PlotEntry importance_entry{
    "importance", "how much of the result is up to each parameter", 32, &draw_importance};

}  // namespace muster::tune
