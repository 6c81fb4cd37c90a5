// Pictures of a study. One file of plots/ adds a kind.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/entry.h"
#include "muster/track/picture/picture.h"
#include "muster/tune/plot/plot_study.h"

namespace muster::tune {

struct PlotOptions {
  std::vector<size_t> parameters;  ///< those to draw, in this order; empty: the kind chooses
};

/// What a kind of plot draws of a study: one picture or several, each with its own title.
struct PlotEntry {
  static constexpr std::string_view kKind = "kind of plot";
  std::string_view name;
  std::string_view help;  ///< one line
  int order = 0;          ///< among the others on a page; names where it is the same
  /// Never nothing: where there is nothing to draw the picture says why. Pure; any thread.
  std::vector<track::Picture> (*draw)(const PlotStudy& study, const PlotOptions& options);
  /// Only of studies of several objectives, unless it is asked for by its name.
  bool of_several = false;
};

/// All kinds (generated; see Note [Generated tables]).
EntryTable<PlotEntry> plots();

/// All kinds in the order of a page.
std::vector<const PlotEntry*> ordered_plots();

/// The kinds of these names; all if there are none, without those of several objectives where the
/// study has one. Throws a usage error for an unknown name, with a
/// suggestion.
std::vector<const PlotEntry*> plots_named(std::span<const std::string> names, bool several = false);

/// The places of parameters named. Throws a usage error for an unknown name, with a suggestion.
std::vector<size_t> parameters_named(std::span<const std::string> names, const StudyFacts& facts);

/// The pictures of these kinds as one: narrow ones beside each other, wide ones below each other.
track::Picture plots_as_picture(const PlotStudy& study,
                                std::span<const PlotEntry* const> kinds,
                                const PlotOptions& options);

}  // namespace muster::tune
