#include "muster/tune/plot/plot.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/plot/chart.h"

namespace muster::tune {
namespace {

constexpr double kMargin = 16, kGap = 20, kHeadHeight = 44;

/// Where each picture goes, below a title; `height` is what they take.
struct Placed {
  const track::Picture* picture;
  double x, y;
};
std::vector<Placed> placed(const std::vector<track::Picture>& pictures, double& height) {
  std::vector<Placed> out;
  double x = kMargin, row = 0;
  height = kHeadHeight;
  for (const track::Picture& picture : pictures) {
    if (x > kMargin && x + picture.width() > kMargin + kWideWidth + 1) {
      height += row + kGap;
      x = kMargin, row = 0;
    }
    out.push_back({&picture, x, height});
    row = std::max(row, picture.height());
    x += picture.width() + kGap;
  }
  height += row + kMargin;
  return out;
}

}  // namespace

std::vector<const PlotEntry*> ordered_plots() {
  const EntryTable<PlotEntry> table = plots();
  std::vector<const PlotEntry*> out(table.begin(), table.end());
  std::ranges::stable_sort(out, {}, &PlotEntry::order);
  return out;
}

std::vector<const PlotEntry*> plots_named(std::span<const std::string> names, bool several) {
  std::vector<const PlotEntry*> out;
  if (names.empty()) {
    out = ordered_plots();
    std::erase_if(out, [&](const PlotEntry* entry) { return entry->of_several && !several; });
    return out;
  }
  for (const std::string& name : names) {
    const PlotEntry* entry = &plots().at(name);
    if (std::ranges::find(out, entry) == out.end()) out.push_back(entry);
  }
  return out;
}

std::vector<size_t> parameters_named(std::span<const std::string> names, const StudyFacts& facts) {
  std::vector<std::string> known;
  for (const StudyFacts::Parameter& parameter : facts.parameters) known.push_back(parameter.name);
  std::vector<size_t> out;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(known, name);
    if (found == known.end()) {
      throw usage_error({.refused = concat("unknown parameter \"", name, "\""),
                         .rule = concat("study \"", facts.name, "\" does not have it"),
                         .hint = suggestion(name, known)});
    }
    const auto place = static_cast<size_t>(found - known.begin());
    if (std::ranges::find(out, place) == out.end()) out.push_back(place);
  }
  return out;
}

track::Picture plots_as_picture(const PlotStudy& study,
                                std::span<const PlotEntry* const> kinds,
                                const PlotOptions& options) {
  std::vector<track::Picture> pictures;
  for (const PlotEntry* kind : kinds) {
    for (track::Picture& picture : kind->draw(study, options))
      pictures.push_back(std::move(picture));
  }
  double height = 0, width = 0;
  const std::vector<Placed> places = placed(pictures, height);
  for (const Placed& place : places) width = std::max(width, place.x + place.picture->width());
  track::Picture out(width + kMargin, height, concat("Study ", study.facts.name));
  out.add(track::TextCommand{.x = kMargin,
                             .y = 28,
                             .text = track::cut_text(study.facts.name, width, 16, true),
                             .ink = track::Ink::kStrong,
                             .size = 16,
                             .bold = true});
  for (const auto& [picture, x, y] : places) out.place(*picture, x, y);
  return out;
}

}  // namespace muster::tune
