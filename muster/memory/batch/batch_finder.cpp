#include "muster/memory/batch/batch_finder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::memory {
namespace {

constexpr int64_t kMostSecondUnits = 8;
constexpr double kHalf = 0.5, kThird = 0.33;
constexpr int64_t kTwice = 2;
/// Below this share of what the line says, five probes were not enough.
constexpr double kFar = 0.85;
/// The peak rises as what forward holds does, but for rounding.
constexpr double kRises = 0.95;
/// A margin that takes more of the units than this keeps no margin: few units are coarse.
constexpr double kCoarse = 0.96;

struct Line {
  double base = 0, slope = 0;
};

Line line_through(const BatchProbe& a, const BatchProbe& b) {
  const double slope = (b.bytes - a.bytes) / static_cast<double>(b.batch - a.batch);
  return {.base = a.bytes - slope * static_cast<double>(a.batch), .slope = slope};
}

/// Those that fit, by size.
std::vector<BatchProbe> fitting(const std::vector<BatchProbe>& probes) {
  std::vector<BatchProbe> out;
  for (const BatchProbe& probe : probes)
    if (probe.fits) out.push_back(probe);
  std::ranges::sort(out, {}, &BatchProbe::batch);
  return out;
}

double rate_of(const BatchProbe& probe) {
  return probe.seconds > 0 ? static_cast<double>(probe.batch) / probe.seconds : 0;
}

}  // namespace

BatchFinder::BatchFinder(const BatchLimits& limits) : limits_(limits) {
  const auto refusal = [](const char* name, const std::string& rule, const std::string& value) {
    return usage_error({.refused = concat("BatchLimits::", name), .rule = rule, .value = value});
  };
  if (!(limits.bytes > 0) || !std::isfinite(limits.bytes))
    throw refusal("bytes", "above 0", shortest(limits.bytes));
  if (limits.multiple_of < 1)
    throw refusal("multiple_of", "at least 1", std::to_string(limits.multiple_of));
  if (limits.least < 0 || limits.least > limits.multiple_of) {
    throw refusal("least",
                  concat("from 0 to multiple_of, ", limits.multiple_of),
                  std::to_string(limits.least));
  }
  if (limits.most < limits.multiple_of) {
    throw refusal(
        "most", concat("at least multiple_of, ", limits.multiple_of), std::to_string(limits.most));
  }
  if (!(limits.margin >= 0 && limits.margin < 1))
    throw refusal("margin", "from 0 to below 1", shortest(limits.margin));
  if (limits.probes < 1) throw refusal("probes", "at least 1", std::to_string(limits.probes));
  if (limits.probes_more < 0)
    throw refusal("probes_more", "at least 0", std::to_string(limits.probes_more));
}

/// What the two largest that fit say of larger ones.
struct BatchFinder::Rise {
  bool rises = false;  ///< the peak does, as far as can be told
  double fits = 0;     ///< the batch that would fill the limit
};

/// Sizes are this times a whole number.
int64_t BatchFinder::unit() const {
  const bool is_too_large = !probes_.empty() && !probes_[0].fits;
  return is_too_large && limits_.least > 0 ? limits_.least : limits_.multiple_of;
}

/// The largest size that has not been seen not to fit.
int64_t BatchFinder::ceiling() const {
  int64_t most = limits_.most;
  for (const BatchProbe& probe : probes_)
    if (!probe.fits) most = std::min(most, probe.batch - 1);
  return most / unit() * unit();
}

/// A size at or below `batch`, of whole units, at least one.
int64_t BatchFinder::in_units(double batch) const {
  constexpr double kRounding = 1e-9;
  const auto one = static_cast<double>(unit());
  const double units =
      std::floor(std::min(batch, static_cast<double>(ceiling())) / one + kRounding);
  return std::max<int64_t>(1, static_cast<int64_t>(units)) * unit();
}

int64_t BatchFinder::less_margin(double batch) const {
  const int64_t whole = in_units(batch), less = in_units(batch * (1 - limits_.margin));
  return static_cast<double>(less) >= kCoarse * static_cast<double>(whole) ? less : whole;
}

BatchFinder::Rise BatchFinder::rise() const {
  const std::vector<BatchProbe> fit = fitting(probes_);
  const BatchProbe &a = fit[fit.size() - 2], &b = fit.back();
  const auto samples = static_cast<double>(b.batch - a.batch);
  const double of_peak = (b.bytes - a.bytes) / samples,
               of_forward = (b.forward - a.forward) / samples;
  const double room = limits_.bytes - b.bytes;
  Rise found{.rises = of_peak > 0 && of_peak >= kRises * of_forward,
             .fits = std::numeric_limits<double>::infinity()};
  for (const double slope : {of_peak, of_forward})
    if (slope > 0) found.fits = std::min(found.fits, static_cast<double>(b.batch) + room / slope);
  return found;
}

/// The last of three that fit lies where the line through the two before it said.
bool BatchFinder::is_on_line() const {
  const std::vector<BatchProbe> fit = fitting(probes_);
  const size_t last = fit.size() - 1;
  const Line before = line_through(fit[last - 2], fit[last - 1]);
  const double said = before.base + before.slope * static_cast<double>(fit[last].batch);
  return std::abs(fit[last].bytes - said) <= kOnLine * (fit[last].bytes - fit[last - 2].bytes);
}

/// All have fitted, and the two largest say, or do not deny, that much larger ones do.
bool BatchFinder::is_far() const {
  const std::vector<BatchProbe> fit = fitting(probes_);
  if (fit.size() < 3) return false;
  const auto end = static_cast<double>(less_margin(rise().fits));
  return static_cast<double>(fit.back().batch) < kFar * end;
}

/// Between the largest that fits and the smallest that does not.
std::optional<int64_t> BatchFinder::below_failure(const BatchProbe& best) const {
  const auto made = static_cast<int>(probes_.size());
  const int64_t failed = ceiling() + unit();
  const auto fits = static_cast<double>(best.batch), fails = static_cast<double>(failed);
  const bool is_more = made >= limits_.probes;
  if (made >= limits_.probes + limits_.probes_more || (is_more && fits >= kNearEnough * fails))
    return std::nullopt;
  const int64_t batch = in_units(fits + (is_more ? kHalf : kThird) * (fails - fits));
  return std::clamp(batch, best.batch + unit(), failed - unit());
}

std::optional<int64_t> BatchFinder::next() const {
  const int64_t unit = this->unit();
  if (probes_.empty()) return unit;
  const std::vector<BatchProbe> fit = fitting(probes_);
  const auto made = static_cast<int>(probes_.size());
  if (fit.empty()) return unit < probes_.back().batch ? std::optional(unit) : std::nullopt;
  const int64_t most = ceiling(), best = fit.back().batch;
  if (best >= most) return std::nullopt;
  if (fit.size() < probes_.size()) return below_failure(fit.back());
  if (made >= limits_.probes + (is_far() ? limits_.probes_more : 0)) return std::nullopt;
  const auto above = [&](int64_t batch) {
    return std::clamp(batch, std::min(most, best + unit), most);
  };
  if (fit.size() == 1) {
    const double sure = limits_.bytes / std::max(1.0, fit[0].bytes);
    return above(unit * static_cast<int64_t>(std::min<double>(kMostSecondUnits, sure)));
  }
  const Rise line = rise();
  const double within = std::min(line.fits, static_cast<double>(limits_.most));
  if (fit.size() == 2) return above(in_units((line.rises ? kHalf : kThird) * within));
  const bool is_last = made + 1 == limits_.probes;
  if (fit.size() == 3 && !is_last && !(line.rises && is_on_line()))
    return above(
        in_units(static_cast<double>(best) + kHalf * (within - static_cast<double>(best))));
  int64_t aim = less_margin(line.fits);
  if (made >= limits_.probes && !line.rises) aim = std::min(aim, kTwice * best);
  if (aim <= best) return std::nullopt;
  return above(aim);
}

void BatchFinder::tell(const BatchProbe& probe) { probes_.push_back(probe); }

BatchFound BatchFinder::found() const {
  const std::vector<BatchProbe> fit = fitting(probes_);
  if (fit.empty()) {
    throw environment_error(
        {.refused = "a batch size that fits",
         .rule = concat("not even ", unit(), unit() == 1 ? " sample does" : " samples do"),
         .hint = "take a smaller model, activation checkpointing, or a device with more memory"});
  }
  const int64_t largest = fit.back().batch;
  BatchFound found{.largest = largest,
                   .fastest = largest,
                   .is_most = largest + unit() > limits_.most,
                   .probes = probes_};
  if (fit.size() > 1) {
    const Line line = line_through(fit[fit.size() - 2], fit.back());
    found.base_bytes = line.base;
    found.bytes_per_sample = line.slope;
  }
  double fastest = 0;
  for (const BatchProbe& probe : fit) fastest = std::max(fastest, rate_of(probe));
  for (const BatchProbe& probe : fit) {
    if (!(fastest > 0) || rate_of(probe) < kNearlyAsFast * fastest) continue;
    found.fastest = probe.batch;
    break;
  }
  return found;
}

BatchFound find_batch_size(const BatchLimits& limits,
                           const std::function<BatchProbe(int64_t batch)>& measure) {
  BatchFinder finder(limits);
  while (const std::optional<int64_t> batch = finder.next()) {
    BatchProbe probe = measure(*batch);
    probe.batch = *batch;
    finder.tell(probe);
  }
  return finder.found();
}

std::string text_of(const BatchFound& found, const BatchLimits& limits) {
  std::string text = concat("batch ",
                            found.largest,
                            " of at most ",
                            limits.most,
                            ": ",
                            found.probes.size(),
                            found.probes.size() == 1 ? " probe" : " probes");
  for (size_t i = 0; i < found.probes.size(); ++i)
    text += concat(i == 0 ? " of " : ", ",
                   found.probes[i].batch,
                   found.probes[i].fits ? "" : " (out of memory)");
  if (found.bytes_per_sample > 0 && found.base_bytes >= 0) {
    text += concat("; ",
                   human_bytes(static_cast<uint64_t>(found.base_bytes)),
                   " + ",
                   human_bytes(static_cast<uint64_t>(found.bytes_per_sample)),
                   " a sample");
  }
  for (const BatchProbe& probe : found.probes) {
    if (probe.batch != found.fastest || rate_of(probe) <= 0) continue;
    text += concat("; fastest ", found.fastest, " (", fixed(rate_of(probe), 0), " samples/s)");
    break;
  }
  return text;
}

}  // namespace muster::memory
