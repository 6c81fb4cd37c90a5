// What --lr find leaves in a run's folder.
#pragma once

#include <filesystem>
#include <string>

#include "muster/train/plan/lr_search.h"

namespace muster::train {

inline constexpr const char* kLrSearchTable = "lr_find.csv";
inline constexpr const char* kLrSearchPlot = "lr_find.svg";

/// "lr,loss,smoothed_loss,suggested": a row for each step.
std::string lr_search_csv(const LrFound& found);

/// Loss over the rate, which is logarithmic, with a mark at the rate that was taken. A complete SVG
/// document; light or dark as the viewer prefers.
std::string lr_search_svg(const LrFound& found, const std::string& title);

/// Both files. Throws an environment error.
void write_lr_search(const LrFound& found,
                     const std::string& title,
                     const std::filesystem::path& output);

}  // namespace muster::train
