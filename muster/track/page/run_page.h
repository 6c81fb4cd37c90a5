// A finished (or broken-off) run as one web page: curves, result, plan, confusion matrix, files.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/json.h"
#include "muster/track/metrics_reader.h"

namespace muster::track {

/// counts[i * classes.size() + j]: samples of class i that the model took for class j.
struct ConfusionMatrix {
  std::vector<std::string> classes;  ///< names, or numbers as text
  std::vector<int64_t> counts;       ///< [classes, classes], at least 0
};

/// A file of the run, by its path relative to the page.
struct PageLink {
  std::string path;
  std::string note;  ///< "step 1500, best"; may be empty
};

struct RunPage {
  std::string title;     ///< "lenet on fashion-mnist"
  std::string subtitle;  ///< "finished 2026-11-21 14:05, 3m07s on 2 ranks"; may be empty
  std::vector<std::pair<std::string, std::string>> results;  ///< {"test accuracy", "0.9123"}, …
  std::vector<MetricsRow> metrics;
  int64_t steps_per_epoch = 0;  ///< of the training; 0: not known
  ConfusionMatrix confusion;    ///< left out when it has no classes
  std::vector<PageLink> files;  ///< checkpoints, logs
  /// {"command", "muster train …"}, {"host", …}: where the numbers come from
  std::vector<std::pair<std::string, std::string>> about;
  Json plan;  ///< an object, shown as a table: nested names joined by points
};

/// A complete HTML page that needs nothing but itself: no network (its own Content-Security-Policy
/// forbids it), pictures as inline SVG, 20 lines of script for reading values off under the
/// pointer; light or dark as the reader prefers, fit for paper. Everything from outside is escaped.
/// Throws a usage error for a confusion matrix whose counts are not classes² or below 0. Pure; any
/// thread.
std::string render_run_page(const RunPage& page);

/// The part of the page for a confusion matrix: the whole table up to 30 classes, above that the 20
/// largest confusions. Throws as render_run_page().
std::string confusion_html(const ConfusionMatrix& confusion);

}  // namespace muster::track
