#include "muster/tune/search/tpe/parzen.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "muster/tune/search/tpe/normal.h"

namespace muster::tune {
namespace {

constexpr double kNoKernel = -std::numeric_limits<double>::infinity();
constexpr double kLogSqrtTwoPi = 0.91893853320467274178;
// In place of log 0, which a category has outside its own kernel if the prior has no weight: as
// good as nothing, and it can be added to and taken away again.
constexpr double kLogNothing = -2000;

constexpr size_t kCandidatesAtOnce = 24;  // the memory for stepped ones is this times the kernels

double log_share(double share) { return share > 0 ? std::log(share) : kLogNothing; }

/// Drops what `is_dead` names from `sorted`, and merges `fresh` into it.
template <class Less>
void merge(std::vector<uint32_t>& sorted,
           const std::vector<uint32_t>& fresh,
           const std::vector<char>& is_dead,
           bool any_dead,
           Less less) {
  if (any_dead) std::erase_if(sorted, [&](uint32_t slot) { return is_dead[slot] != 0; });
  const auto old = static_cast<std::ptrdiff_t>(sorted.size());
  sorted.insert(sorted.end(), fresh.begin(), fresh.end());
  std::sort(sorted.begin() + old, sorted.end(), less);
  // Mostly a new one is the youngest, and nothing has to move.
  const bool is_sorted = old == 0 || fresh.empty() || less(sorted[old - 1], sorted[old]);
  if (!is_sorted) std::inplace_merge(sorted.begin(), sorted.begin() + old, sorted.end(), less);
}

}  // namespace

ParzenEstimator::ParzenEstimator(std::vector<ParzenAxis> axes, const ParzenOptions& options)
    : options_(options) {
  for (ParzenAxis& axis : axes) columns_.push_back({.axis = std::move(axis)});
  take_slot();  // kPrior
  for (Column& column : columns_) {
    column.centre[kPrior] = column.axis.prior_centre;
    if (column.numeric()) set_width(column, kPrior, column.axis.prior_width);
    if (!column.numeric()) column.category[kPrior] = -1;
  }
}

void ParzenEstimator::insert(int64_t age, std::span<const double> numbers) {
  const Slot slot = take_slot();
  age_[slot] = age;
  slot_of_.emplace(age, slot);
  for (size_t d = 0; d < columns_.size(); ++d) {
    Column& column = columns_[d];
    column.centre[slot] = column.axis.place(numbers[d]);
    if (!column.numeric()) column.category[slot] = static_cast<int32_t>(numbers[d]);
    column.width[slot] = 0;  // none yet
  }
  fresh_.push_back(slot);
  ++size_;
  is_stale_ = true;
}

void ParzenEstimator::erase(int64_t age) {
  const auto known = slot_of_.find(age);
  const Slot slot = known->second;
  slot_of_.erase(known);
  const auto fresh = std::find(fresh_.rbegin(), fresh_.rend(), slot);
  if (fresh != fresh_.rend()) {
    fresh_.erase(std::next(fresh).base());
  } else {
    is_dead_[slot] = 1;
    any_dead_ = true;
  }
  for (Column& column : columns_) {
    if (column.axis.kind == ParzenAxis::kStepped && column.width[slot] != 0)
      column.kernels.release(column.kernel_class[slot]);
    column.width[slot] = 0;
  }
  weight_[slot] = 0, offset_[slot] = kNoKernel;
  free_.push_back(slot);
  --size_;
  is_stale_ = true;
}

ParzenEstimator::Slot ParzenEstimator::take_slot() {
  if (!free_.empty()) {
    const Slot slot = free_.back();
    free_.pop_back();
    return slot;
  }
  if (used_ == age_.size()) {
    const size_t slots = age_.size() + kMixtureBlock;
    age_.resize(slots), is_dead_.resize(slots), weight_.resize(slots);
    offset_.resize(slots, kNoKernel);
    for (Column& column : columns_) {
      column.centre.resize(slots), column.width.resize(slots);
      if (column.numeric()) column.norm.resize(slots);
      if (column.axis.kind == ParzenAxis::kContinuous) column.scale.resize(slots);
      if (column.axis.kind == ParzenAxis::kStepped) column.kernel_class.resize(slots);
      if (column.axis.kind == ParzenAxis::kCategory) column.category.resize(slots);
    }
  }
  return used_++;
}

void ParzenEstimator::refresh() {
  if (!is_stale_) return;
  refresh_orders();
  for (Column& column : columns_) {
    if (column.numeric()) refresh_widths(column);
  }
  refresh_offsets();
  refresh_weights();
  is_stale_ = false;
}

void ParzenEstimator::refresh_orders() {
  const auto older = [&](Slot a, Slot b) { return age_[a] < age_[b]; };
  merge(by_age_, fresh_, is_dead_, any_dead_, older);
  for (Column& column : columns_) {
    if (!column.numeric()) continue;
    merge(column.by_centre, fresh_, is_dead_, any_dead_, [&](Slot a, Slot b) {
      const double left = column.centre[a], right = column.centre[b];
      return left < right || (left == right && age_[a] < age_[b]);
    });
  }
  if (any_dead_) std::ranges::fill(is_dead_, 0);
  any_dead_ = false;
  fresh_.clear();
}

void ParzenEstimator::refresh_widths(Column& column) {
  const ParzenAxis& axis = column.axis;
  const auto& order = column.by_centre;
  const size_t n = order.size();
  const double least = axis.range() / std::min(100.0, static_cast<double>(n) + 2);
  double centre = n > 0 ? column.centre[order[0]] : 0;
  double before = n > 1 ? 0 : centre - axis.low;  // the gap to the left
  for (size_t i = 0; i < n; ++i) {
    const bool is_last = i + 1 == n;
    const double next = is_last ? axis.high : column.centre[order[i + 1]];
    const double after = is_last && n > 1 ? 0 : next - centre;
    const double width = std::clamp(std::max(before, after), least, axis.range());
    if (width != column.width[order[i]]) set_width(column, order[i], width);
    before = after, centre = next;
  }
}

void ParzenEstimator::set_width(Column& column, Slot slot, double width) {
  const ParzenAxis& axis = column.axis;
  const double centre = column.centre[slot];
  double norm = axis.bounded
                    ? -log_central_mass((axis.low - centre) / width, (axis.high - centre) / width)
                    : 0;
  if (axis.kind == ParzenAxis::kStepped) {
    if (column.width[slot] != 0) column.kernels.release(column.kernel_class[slot]);
    column.kernel_class[slot] = column.kernels.hold(centre, width);
  } else {
    column.scale[slot] = 1 / (std::numbers::sqrt2 * width);
    norm -= std::log(width) + kLogSqrtTwoPi;
  }
  column.width[slot] = width;
  column.norm[slot] = norm;
  offset_[slot] = std::numeric_limits<double>::quiet_NaN();  // to be summed up anew
}

void ParzenEstimator::refresh_offsets() {
  const auto sum_up = [&](Slot slot) {
    double sum = 0;
    for (const Column& column : columns_) sum += column.numeric() ? column.norm[slot] : 0;
    offset_[slot] = sum;
  };
  for (const Slot slot : by_age_) {
    // NaN: changed; no kernel: new, and all dimensions are categories.
    if (std::isnan(offset_[slot]) || offset_[slot] == kNoKernel) sum_up(slot);
  }
  // The prior's shares of categories are its own, and all change with the number of kernels.
  sum_up(kPrior);
  log_others_ = 0;
  for (const Column& column : columns_) {
    if (column.numeric()) continue;
    const Shares share = shares(column);
    log_others_ += share.log_other;
    offset_[kPrior] += share.log_prior - share.log_other;
  }
}

void ParzenEstimator::refresh_weights() {
  const auto n = static_cast<double>(size_);
  const double faded = std::max(0.0, n - static_cast<double>(options_.recent));
  const double step = faded > 1 ? (1 - 1 / n) / (faded - 1) : 0;
  double total = 0, i = 0;
  for (const Slot slot : by_age_) {
    // numpy.linspace(1/n, 1, faded), whose last number is the end itself unless it is the first.
    const bool is_end = i + 1 == faded && faded > 1;
    const double weight = i >= faded || is_end ? 1 : 1 / n + i * step;
    weight_[slot] = weight;
    total += weight, i += 1;
  }
  weight_[kPrior] = size_ == 0 ? 1 : options_.prior_weight;
  log_total_weight_ = std::log(total + weight_[kPrior]);
}

ParzenEstimator::Shares ParzenEstimator::shares(const Column& column) const {
  const double choices = column.axis.choices;
  const double other = options_.prior_weight / static_cast<double>(size_ + 1);
  const double all = 1 + choices * other;
  const double log_other = log_share(other / all);
  return {.log_other = log_other,
          .bonus = std::log((1 + other) / all) - log_other,
          .log_prior = -std::log(choices)};
}

std::vector<double> ParzenEstimator::log_density(const Candidates& candidates) {
  refresh();
  std::vector<double> out(candidates.count);
  for (size_t first = 0; first < out.size(); first += kCandidatesAtOnce)
    log_densities(candidates, first, std::min(out.size() - first, kCandidatesAtOnce), &out[first]);
  return out;
}

/// Of `count` candidates from `first` on.
void ParzenEstimator::log_densities(const Candidates& candidates,
                                    size_t first,
                                    size_t count,
                                    double* out) const {
  Mixture mixture{.kernels = age_.size(),
                  .weight = weight_.data(),
                  .offset = offset_.data(),
                  .candidates = count};
  // What the mixture points to.
  std::vector<std::vector<double>> places(columns_.size());
  std::vector<std::vector<int32_t>> categories(columns_.size());
  std::vector<double> stepped;
  for (size_t d = 0; d < columns_.size(); ++d) {
    const Column& column = columns_[d];
    const auto numbers = std::span(candidates.numbers[d]).subspan(first, count);
    if (column.axis.kind == ParzenAxis::kContinuous) {
      for (const double number : numbers) places[d].push_back(column.axis.place(number));
      mixture.continuous.push_back({column.centre.data(), column.scale.data(), places[d].data()});
    } else if (column.axis.kind == ParzenAxis::kCategory) {
      categories[d].assign(numbers.begin(), numbers.end());
      mixture.categories.push_back(
          {column.category.data(), shares(column).bonus, categories[d].data()});
    } else {
      stepped.resize(count * mixture.kernels);
      mixture.more = stepped.data();
      add_stepped(column, numbers, stepped.data());
    }
  }
  log_mixture(mixture, out);
  for (size_t c = 0; c < count; ++c) out[c] += log_others_ - log_total_weight_;
}

/// Adds the logarithms of a dimension's masses to logs, [numbers, slots].
void ParzenEstimator::add_stepped(const Column& column,
                                  std::span<const double> numbers,
                                  double* logs) const {
  const SteppedKernels& kernels = column.kernels;
  std::vector<double> mass(kernels.centres().size());  // by class
  const size_t slots = age_.size();
  const auto is_before = [&](size_t c) {
    return std::find(numbers.begin(),
                     numbers.begin() + static_cast<std::ptrdiff_t>(c),
                     numbers[c]) != numbers.begin() + static_cast<std::ptrdiff_t>(c);
  };
  for (size_t c = 0; c < numbers.size(); ++c) {
    if (is_before(c)) continue;  // candidates often share a number
    log_masses(column.axis.left(numbers[c]),
               column.axis.right(numbers[c]),
               kernels.centres().data(),
               kernels.inverse_widths().data(),
               mass.size(),
               mass.data());
    for (size_t same = c; same < numbers.size(); ++same) {
      if (numbers[same] != numbers[c]) continue;
      double* log = logs + same * slots;
      for (size_t slot = 0; slot < slots; ++slot) log[slot] += mass[column.kernel_class[slot]];
    }
  }
}

double ParzenEstimator::log_kernel(const Column& column, Slot slot, double number) const {
  if (!column.numeric()) {
    const Shares share = shares(column);
    if (slot == kPrior) return share.log_prior;
    return share.log_other +
           (column.category[slot] == static_cast<int32_t>(number) ? share.bonus : 0);
  }
  const double centre = column.centre[slot];
  if (column.axis.kind == ParzenAxis::kContinuous) {
    const double z = (column.axis.place(number) - centre) * column.scale[slot];
    return column.norm[slot] - z * z;
  }
  const double centres[kMixtureLanes] = {centre};
  const double inverse_widths[kMixtureLanes] = {1 / column.width[slot]};
  double masses[kMixtureLanes];
  log_masses(column.axis.left(number),
             column.axis.right(number),
             centres,
             inverse_widths,
             kMixtureLanes,
             masses);
  return column.norm[slot] + masses[0];
}

/// Of each kernel to be drawn from, added up: those of by_age_, and last the prior.
std::vector<double> ParzenEstimator::chances(std::span<const double> fixed) const {
  std::vector<double> logs;
  const auto add = [&](Slot slot) {
    double log = log_share(weight_[slot]);
    for (size_t d = 0; d < columns_.size(); ++d) {
      if (!std::isnan(fixed[d])) log += log_kernel(columns_[d], slot, fixed[d]);
    }
    logs.push_back(log);
  };
  for (const Slot slot : by_age_) add(slot);
  add(kPrior);
  const double most = std::ranges::max(logs);
  double sum = 0;
  for (double& log : logs) log = sum += std::exp(log - most);
  return logs;
}

Candidates ParzenEstimator::draw(size_t count,
                                 std::span<const double> fixed,
                                 RandomStream& random) {
  refresh();
  const std::vector<double> sums = chances(fixed);
  Candidates out{.count = count, .numbers = std::vector<std::vector<double>>(columns_.size())};
  for (size_t c = 0; c < count; ++c) {
    const double at = random.next() * sums.back();
    const auto found = std::ranges::upper_bound(sums, at);
    const auto index = std::min<size_t>(static_cast<size_t>(found - sums.begin()), by_age_.size());
    const Slot slot = index == by_age_.size() ? kPrior : by_age_[index];
    for (size_t d = 0; d < columns_.size(); ++d)
      out.numbers[d].push_back(std::isnan(fixed[d]) ? draw_from(columns_[d], slot, random)
                                                    : fixed[d]);
  }
  return out;
}

double ParzenEstimator::draw_from(const Column& column, Slot slot, RandomStream& random) const {
  const double u = random.next();
  const ParzenAxis& axis = column.axis;
  if (!column.numeric()) {
    // The kernel's own category, or any with what is left of the chances.
    const double other = options_.prior_weight / static_cast<double>(size_ + 1);
    const double own = slot == kPrior ? 0 : 1 / (1 + axis.choices * other);
    if (u < own) return column.category[slot];
    return std::min(std::floor((u - own) / (1 - own) * axis.choices), axis.choices - 1);
  }
  const double infinity = std::numeric_limits<double>::infinity();
  return axis.number(truncated_normal_quantile(u,
                                               column.centre[slot],
                                               column.width[slot],
                                               axis.bounded ? axis.low : -infinity,
                                               axis.bounded ? axis.high : infinity));
}

}  // namespace muster::tune
