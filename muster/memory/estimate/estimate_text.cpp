#include <cmath>
#include <string>

#include "muster/base/text.h"
#include "muster/memory/estimate/estimate.h"

namespace muster::memory {
namespace {

std::string in_mib(int64_t bytes) {
  constexpr double kEstimateMib = 1024.0 * 1024.0;
  const double mib = static_cast<double>(bytes) / kEstimateMib;
  return fixed(mib, mib < 10 ? 2 : mib < 100 ? 1 : 0);
}

/// "parameters" of kParameter: as people say it of many.
std::string many_text(Owner owner) {
  switch (owner) {
    case Owner::kParameter:
      return "parameters";
    case Owner::kBuffer:
      return "buffers";
    case Owner::kGradient:
      return "gradients";
    case Owner::kOptimizerState:
      return "optimizer";
    case Owner::kActivation:
      return "activations";
    case Owner::kInput:
      return "inputs";
    case Owner::kOther:
      break;
  }
  return "other";
}

std::string error_text(const PeakEstimate& estimate) {
  if (estimate.is_for_cpu && estimate.error() > kEstimateError)
    return concat("within ", in_mib(kEstimateBytes), " MiB");
  if (estimate.is_for_cpu)
    return concat("within ", fixed(std::ceil(100 * estimate.error()), 0), " %");
  if (estimate.unseen_workspaces.empty()) return "without workspaces of the device's kernels";
  return concat("without the device's workspaces for ", join(estimate.unseen_workspaces, ", "));
}

}  // namespace

std::string text_of(const PeakEstimate& estimate) {
  std::string parts;
  for (const Owner owner : {Owner::kParameter,
                            Owner::kBuffer,
                            Owner::kGradient,
                            Owner::kOptimizerState,
                            Owner::kActivation,
                            Owner::kInput,
                            Owner::kOther}) {
    constexpr int64_t kWorthSaying = 1000;  // of the whole: a thousandth
    const int64_t bytes = estimate.of(owner);
    if (bytes == 0 || bytes < estimate.peak / kWorthSaying) continue;
    parts += concat(parts.empty() ? "" : ", ", many_text(owner), ' ', in_mib(bytes));
  }
  return concat("about ",
                in_mib(estimate.peak),
                " MiB",
                parts.empty() ? "" : concat(" (", parts, ')'),
                ", estimated on meta; ",
                error_text(estimate));
}

}  // namespace muster::memory
