#include "muster/track/page/curves.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "muster/base/text.h"
#include "muster/track/page/panel_svg.h"
#include "muster/track/utf8.h"

namespace muster::track {
namespace {

struct Column {
  std::string_view name;
  std::string_view title;
  std::string_view unit = "";
  bool is_share = false;
  bool log_if_wide = false;
};

constexpr Column kColumns[] = {
    {.name = "loss", .title = "Loss", .log_if_wide = true},
    {.name = "accuracy", .title = "Accuracy", .unit = "share", .is_share = true},
    {.name = "lr", .title = "Learning rate"},
    {.name = "samples_per_s", .title = "Speed", .unit = "samples/s"}};

// Drawn behind those, where a run has them.
constexpr Column kFurther[] = {
    {.name = "top_k_accuracy", .title = "Top-k accuracy", .unit = "share", .is_share = true},
    {.name = "gradient_norm",
     .title = "Gradients before clipping",
     .unit = "2-norm",
     .log_if_wide = true}};

// Times rise and start again: no curves.
constexpr std::string_view kTimes[] = {"elapsed_s", "epoch_s"};

Series& series_of(Panel& panel, const std::string& phase) {
  for (Series& series : panel.series) {
    if (series.name == phase) return series;
  }
  panel.series.push_back({phase, {}});
  return panel.series.back();
}

Panel panel_of(std::span<const MetricsRow> records, const Column& column) {
  Panel panel{.title = std::string(column.title),
              .unit = std::string(column.unit),
              .is_share = column.is_share,
              .log_if_wide = column.log_if_wide};
  for (const MetricsRow& record : records) {
    if (const double* value = record.find(column.name)) {
      series_of(panel, record.phase).points.push_back({static_cast<double>(record.step), *value});
    }
  }
  for (Series& series : panel.series) {
    std::stable_sort(series.points.begin(),
                     series.points.end(),
                     [](const Point& a, const Point& b) { return a.x < b.x; });
  }
  return panel;
}

/// Names that have no panel of their own, in the order in which they appear.
std::vector<std::string> further_columns(std::span<const MetricsRow> records) {
  std::vector<std::string> known(std::begin(kTimes), std::end(kTimes));
  for (const Column& column : kColumns) known.emplace_back(column.name);
  const size_t ours = known.size();
  for (const MetricsRow& record : records) {
    for (const auto& [name, value] : record.values) {
      if (std::find(known.begin(), known.end(), name) == known.end()) known.push_back(name);
    }
  }
  return {known.begin() + static_cast<std::ptrdiff_t>(ours), known.end()};
}

std::vector<EpochMark> epochs_of(std::span<const MetricsRow> records, int64_t steps_per_epoch) {
  std::map<int64_t, int64_t> last;  // step by epoch
  int64_t step = 0;
  for (const MetricsRow& record : records) {
    last[record.epoch] = std::max(last[record.epoch], record.step);
    step = std::max(step, record.step);
  }
  std::vector<EpochMark> out;
  if (steps_per_epoch > 0) {
    for (int64_t epoch = 1; epoch <= step / steps_per_epoch; ++epoch)
      out.push_back({epoch, epoch * steps_per_epoch});
    return out;
  }
  // The last one may have been left in the middle.
  for (const auto& [epoch, end] : last) {
    if (epoch != last.rbegin()->first) out.push_back({epoch, end});
  }
  return out;
}

constexpr double kMargin = 16;
constexpr double kTitleHeight = 42;
constexpr int kPerRow = 2;
constexpr double kGap = 20;

}  // namespace

Curves curves_of(std::span<const MetricsRow> records, std::string title, int64_t steps_per_epoch) {
  Curves curves{.title = std::move(title), .epochs = epochs_of(records, steps_per_epoch)};
  const auto add = [&](const Column& column) {
    Panel panel = panel_of(records, column);
    if (!panel.series.empty()) curves.panels.push_back(std::move(panel));
  };
  // A classifier's loss is a cross entropy; what another one's is counted in, nobody says.
  const bool has_accuracy = std::ranges::any_of(
      records, [](const MetricsRow& record) { return record.find("accuracy") != nullptr; });
  for (Column column : kColumns) {
    if (column.name == "loss" && has_accuracy) column.unit = "nats";
    add(column);
  }
  for (const std::string& name : further_columns(records)) {
    const auto found = std::find_if(std::begin(kFurther),
                                    std::end(kFurther),
                                    [&](const Column& column) { return column.name == name; });
    add(found != std::end(kFurther) ? *found
                                    : Column{.name = name, .title = name, .log_if_wide = true});
  }
  return curves;
}

std::string render_curves_svg(const Curves& curves) {
  PanelSize size;
  const size_t rows = (curves.panels.size() + kPerRow - 1) / kPerRow;
  const double row_width = kPerRow * size.width + kGap;
  if (curves.panels.size() == 1) size.width = row_width;  // else half of the picture is empty
  const double width = row_width + 2 * kMargin;
  const double height =
      kTitleHeight + static_cast<double>(std::max<size_t>(rows, 1)) * (size.height + kGap);
  const std::string title = escape_xml(curves.title);
  std::string out = concat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ",
                           coordinate(width),
                           ' ',
                           coordinate(height),
                           "\" width=\"",
                           coordinate(width),
                           "\" height=\"",
                           coordinate(height),
                           "\" role=\"img\">\n<title>",
                           title,
                           "</title>\n<style>",
                           panel_style(),
                           "</style>\n<rect class=\"page\" width=\"100%\" "
                           "height=\"100%\"/>\n<text class=\"head\" x=\"16\" y=\"30\">",
                           title,
                           "</text>\n");
  if (curves.panels.empty()) out += "<text class=\"t\" x=\"16\" y=\"60\">No metrics yet.</text>\n";
  for (size_t i = 0; i < curves.panels.size(); ++i) {
    const double x = kMargin + static_cast<double>(i % kPerRow) * (size.width + kGap);
    const double y = kTitleHeight + static_cast<double>(i / kPerRow) * (size.height + kGap);
    out += concat("<g transform=\"translate(",
                  coordinate(x),
                  ' ',
                  coordinate(y),
                  ")\">\n",
                  panel_svg(curves.panels[i], curves.epochs, size, /*hover=*/false),
                  "</g>\n");
  }
  return out + "</svg>\n";
}

}  // namespace muster::track
