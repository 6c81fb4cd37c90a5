#include "muster/train/plan/lr_search.h"

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/params.h"
#include "muster/base/text.h"

namespace muster::train {
namespace {

constexpr double kBeta = 0.98;
constexpr size_t kSkipBegin = 10, kSkipEnd = 1;
constexpr int64_t kLeastSteps = kSkipBegin + kSkipEnd + 2;
constexpr int64_t kMostSteps = 100'000;

constexpr Param kLrSearchParams[] = {
    param<&LrSearchOptions::min>("min", "the first rate"),
    param<&LrSearchOptions::max>("max", "the last rate"),
    param<&LrSearchOptions::steps>("steps", "from the first to the last"),
    param<&LrSearchOptions::stop>("stop", "ends at so many times the least loss"),
};

/// As torch.gradient: halves of differences over two, single ones at the ends. At least 2 values.
std::vector<double> gradient_of(const std::vector<double>& values) {
  const size_t last = values.size() - 1;
  std::vector<double> out(values.size());
  out[0] = values[1] - values[0];
  out[last] = values[last] - values[last - 1];
  for (size_t i = 1; i < last; ++i) out[i] = (values[i + 1] - values[i - 1]) / 2;
  return out;
}

/// Whether the losses behind the suggestion, by their median, are below those of the first steps by
/// more than these scatter: else the steepest place may be chance.
bool falls_behind(const std::vector<LrPoint>& points, size_t at) {
  constexpr size_t kNear = 20;
  double start = 0, scatter = 0;
  for (size_t i = 0; i < kSkipBegin; ++i) start += points[i].loss / double{kSkipBegin};
  for (size_t i = 0; i < kSkipBegin; ++i) scatter += std::pow(points[i].loss - start, 2);
  scatter = std::sqrt(scatter / double{kSkipBegin - 1});
  std::vector<double> behind;
  for (size_t i = at; i < std::min(at + kNear, points.size()); ++i)
    behind.push_back(points[i].loss);
  const auto middle = behind.begin() + static_cast<std::ptrdiff_t>(behind.size() / 2);
  std::nth_element(behind.begin(), middle, behind.end());
  return *middle < start - scatter;
}

}  // namespace

LrSearchOptions parse_lr_search(const std::string& spec) {
  const Spec parsed = parse_spec(spec);
  if (parsed.name != "find") {
    throw usage_error({.refused = "--lr",
                       .rule = "a number above 0, or find, which searches for one",
                       .value = spec.empty() ? "\"\"" : spec});
  }
  const auto options = resolve_params<LrSearchOptions>(kLrSearchParams, parsed.params, "--lr find");
  const bool is_range = options.min > 0 && options.min < options.max && std::isfinite(options.max);
  if (!is_range || !(options.stop > 1) || options.steps < kLeastSteps ||
      options.steps > kMostSteps) {
    throw usage_error(
        {.refused = "--lr " + spec,
         .rule = concat(
             "0 < min < max, steps from ", kLeastSteps, " to ", kMostSteps, ", stop above 1")});
  }
  return options;
}

double LrSearch::lr() const {
  const size_t step = points_.size();
  if (step == 0) return options_.min;
  const double share = static_cast<double>(step + 1) / static_cast<double>(options_.steps);
  return options_.min * std::pow(options_.max / options_.min, share);
}

void LrSearch::add(double loss) {
  if (!std::isfinite(loss)) return diverged();
  const double rate = lr();
  average_ = kBeta * average_ + (1 - kBeta) * loss;
  const auto step = static_cast<double>(points_.size() + 1);
  const double smoothed = average_ / (1 - std::pow(kBeta, step + 1));
  points_.push_back({.lr = rate, .loss = loss, .smoothed = smoothed});
  const bool is_first = points_.size() == 1;
  is_over_ = (!is_first && smoothed > options_.stop * least_) ||
             static_cast<int64_t>(points_.size()) == options_.steps;
  if (is_first || smoothed < least_) least_ = smoothed;
}

std::optional<size_t> LrSearch::suggestion() const {
  std::vector<double> losses;
  for (size_t i = kSkipBegin; i + kSkipEnd < points_.size(); ++i)
    losses.push_back(points_[i].smoothed);
  if (losses.size() < 2) return std::nullopt;
  const std::vector<double> slopes = gradient_of(losses);
  const auto steepest = std::min_element(slopes.begin(), slopes.end());
  return kSkipBegin + static_cast<size_t>(steepest - slopes.begin());
}

LrFound found_lr(const LrSearch& search) {
  const std::optional<size_t> at = search.suggestion();
  if (!at) {
    throw usage_error(
        {.refused = "--lr find",
         .rule =
             concat("it needs ", kLeastSteps, " steps whose loss is finite and does not explode"),
         .value = concat(search.points().size(), " before the loss diverged"),
         .hint = "give --lr a number, or search lower: --lr find:min=1e-12,max=0.01"});
  }
  return {.points = search.points(), .at = *at, .falls = falls_behind(search.points(), *at)};
}

}  // namespace muster::train
