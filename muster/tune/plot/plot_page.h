// A study as one page for a browser.
#pragma once

#include <span>
#include <string>

#include "muster/tune/plot/plot.h"

namespace muster::tune {

/// HTML, well-formed as XML as well: what is known of the study, its best trial, the pictures of the
/// kinds and a table of the shown trials, best first. Nothing is loaded from anywhere; all text is
/// escaped. A little JavaScript tells of the trial under the pointer, in all pictures at once, and
/// sorts the table; the page is whole without it. Light or dark as the reader prefers. Pure.
std::string plot_page(const PlotStudy& study,
                      std::span<const PlotEntry* const> kinds,
                      const PlotOptions& options);

}  // namespace muster::tune
