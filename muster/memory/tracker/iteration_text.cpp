#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/text.h"
#include "muster/memory/tracker/tracker.h"

namespace muster::memory {
namespace {

constexpr double kMib = 1024.0 * 1024.0;

std::string metric_name(Owner owner) {
  std::string name = owner_text(owner);
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

bool has_owners(const IterationMemory& iteration) {
  return std::any_of(
      iteration.at_peak.begin(), iteration.at_peak.end(), [](int64_t bytes) { return bytes != 0; });
}

std::string row(std::string name, int64_t at_end, int64_t at_peak) {
  const auto column = [](std::string text, size_t width) {
    return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
  };
  if (name.size() < 32) name.resize(32, ' ');
  return concat(name,
                column(fixed(static_cast<double>(at_end) / kMib, 2), 12),
                column(fixed(static_cast<double>(at_peak) / kMib, 2), 12),
                "\n");
}

}  // namespace

std::vector<std::pair<std::string, double>> metrics_of(const IterationMemory& iteration) {
  std::vector<std::pair<std::string, double>> metrics;
  const auto add = [&metrics](std::string name, int64_t value) {
    metrics.emplace_back("memory/" + std::move(name), static_cast<double>(value));
  };
  add("peak_bytes", iteration.peak_bytes);
  add("end_bytes", iteration.end_bytes);
  add("allocations", iteration.allocations);
  add("other_heap_bytes", iteration.other_heap_bytes);
  for (size_t i = 0; has_owners(iteration) && i < kOwners; ++i) {
    const std::string owner = metric_name(static_cast<Owner>(i));
    add("end/" + owner, iteration.at_end[i]);
    add("peak/" + owner, iteration.at_peak[i]);
  }
  if (iteration.device.has_value()) {
    add("device_bytes", iteration.device->current);
    add("device_peak_bytes", iteration.device->peak);
  }
  return metrics;
}

std::string text_of(const IterationMemory& iteration, size_t layers) {
  std::string text = concat("iteration ", iteration.iteration, ", MiB");
  text.resize(32, ' ');
  text += "         end        peak\n";
  for (size_t i = 0; has_owners(iteration) && i < kOwners; ++i) {
    if (iteration.at_end[i] != 0 || iteration.at_peak[i] != 0)
      text +=
          row("  " + owner_text(static_cast<Owner>(i)), iteration.at_end[i], iteration.at_peak[i]);
  }
  text += row("  all", iteration.end_bytes, iteration.peak_bytes);
  for (size_t i = 0; i < std::min(layers, iteration.layers.size()); ++i) {
    const LayerBytes& layer = iteration.layers[i];
    text += row("  layer " + layer.layer, layer.at_end, layer.at_peak);
  }
  return text;
}

}  // namespace muster::memory
