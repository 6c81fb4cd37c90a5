#include "muster/tune/search/gp/model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "muster/base/text.h"
#include "muster/tune/search/gp/acquisition.h"
#include "muster/tune/search/gp/fit.h"

namespace muster::tune {
namespace {

constexpr size_t kRefitShare = 50;    // one in so many rows is new: fit again
constexpr size_t kManyRows = 50;      // from then on the last fit is start enough
constexpr size_t kRunningRows = 128;  // up to twice as many trials under way are modelled
constexpr double kMemoDigit = 1e-4;

double memo_log(double x) { return std::nearbyint(std::log(x) / kMemoDigit) * kMemoDigit; }

void round_hyper(GpHyper& hyper) {
  for (double& w : hyper.weights) w = std::exp(memo_log(w));
  hyper.scale = std::exp(memo_log(hyper.scale));
  hyper.noise = std::exp(memo_log(hyper.noise));
}

std::string hyper_text(const GpHyper& hyper) {
  std::string out = ";";
  const auto add = [&](double x) { out += concat(" ", fixed(memo_log(x), 4)); };
  for (const double w : hyper.weights) add(w);
  add(hyper.scale);
  add(hyper.noise);
  return out;
}

std::optional<GpHyper> hyper_of(std::string_view text) {
  GpHyper out;
  for (const std::string& word : split(text, ' ')) {
    if (word.empty()) continue;
    const auto log = to_double(word);
    if (!log) return {};
    out.weights.push_back(std::exp(std::nearbyint(*log / kMemoDigit) * kMemoDigit));
  }
  if (out.weights.size() < 2) return {};
  out.noise = out.weights.back();
  out.weights.pop_back();
  out.scale = out.weights.back();
  out.weights.pop_back();
  return out;
}

/// Every k-th, so that at most `limit` are left.
std::vector<size_t> thinned(const std::vector<size_t>& rows, size_t limit) {
  const size_t k = (rows.size() + limit - 1) / limit;
  std::vector<size_t> out;
  for (size_t i = rows.size() % std::max<size_t>(k, 1); i < rows.size();
       i += std::max<size_t>(k, 1))
    out.push_back(rows[i]);
  return out;
}

}  // namespace

std::string GpFit::memo() const {
  return concat(
      rows, " ", deepest, hyper_text(objective), feasibility ? hyper_text(*feasibility) : "");
}

std::optional<GpFit> GpFit::from_memo(const std::string& memo) {
  const auto parts = split(memo, ';');
  if (parts.size() < 2 || parts.size() > 3) return {};
  const auto head = split(parts[0], ' ');
  if (head.size() != 2) return {};
  const auto rows = to_int(head[0]), deepest = to_int(head[1]);
  auto objective = hyper_of(parts[1]);
  if (!rows || *rows < 0 || !deepest || *deepest < 1 || !objective) return {};
  GpFit out{.rows = static_cast<size_t>(*rows),
            .deepest = *deepest,
            .objective = std::move(*objective),
            .feasibility = {}};
  if (parts.size() == 3) out.feasibility = hyper_of(parts[2]);
  return out;
}

std::vector<uint8_t> GpModel::hamming(Role role) const {
  std::vector<uint8_t> out = axes_.hamming();
  if (role == Role::kObjective && rows_.has_stopped()) out.push_back(0);  // depth
  return out;
}

bool GpModel::is_used(Role role, const GpRow& row) const {
  if (role == Role::kObjective) return row.kind != GpRow::kInfeasible;
  return row.kind == GpRow::kInfeasible || (row.kind == GpRow::kScore && row.is_last);
}

std::vector<double> GpModel::point(Role role, size_t row, int64_t deepest) const {
  std::vector<double> out = rows_.rows()[row].columns;
  out.push_back(role == Role::kObjective ? depth_of(rows_.rows()[row], deepest) : 1);
  return out;
}

/// Of the first `rows` rows those to be modelled, in their order.
std::vector<size_t> GpModel::chosen(Role role, size_t rows) const {
  std::vector<size_t> out;
  for (size_t i = 0; i < rows; ++i)
    if (is_used(role, rows_.rows()[i])) out.push_back(i);
  if (out.size() <= options_.max_rows) return out;
  const auto half = static_cast<ptrdiff_t>(options_.max_rows / 2);
  const std::vector<size_t> latest(out.end() - half, out.end());
  out.resize(out.size() - static_cast<size_t>(half));
  const auto score = [&](size_t i) {
    const GpRow& row = rows_.rows()[i];
    return row.kind == GpRow::kScore ? row.score : -std::numeric_limits<double>::infinity();
  };
  std::ranges::stable_sort(out, std::greater{}, score);
  out.resize(static_cast<size_t>(half));
  std::ranges::sort(out);
  out.insert(out.end(), latest.begin(), latest.end());
  return out;
}

std::vector<double> GpModel::targets(Role role, const std::vector<size_t>& used) const {
  std::vector<double> out;
  for (const size_t i : used) {
    const GpRow& row = rows_.rows()[i];
    out.push_back(role == Role::kObjective ? row.score : row.kind == GpRow::kInfeasible ? -1 : 1);
  }
  // Feasibility is 1 or -1: where nothing is known it is as likely as not.
  if (role == Role::kFeasibility) return out;
  out = standardized(std::move(out));
  return options_.warp ? standardized(half_ranked(std::move(out))) : out;
}

bool GpModel::is_due() const {
  if (!adopted_) return true;
  const GpFit& last = *adopted_;
  return rows_.rows().size() >= last.rows + std::max<size_t>(1, last.rows / kRefitShare) ||
         last.objective.weights.size() != hamming(Role::kObjective).size() ||
         last.feasibility.has_value() != rows_.has_infeasible() || last.rows > rows_.rows().size();
}

GpHyper GpModel::fitted(Role role, int64_t deepest, const GpHyper* last) const {
  const std::vector<uint8_t> kinds = hamming(role);
  const auto used = thinned(chosen(role, rows_.rows().size()), options_.max_fit_rows);
  PointSet points(axes_.columns() + 1, used.size());
  for (const size_t i : used) points.append(point(role, i, deepest));
  if (used.empty()) return default_hyper(kinds.size());
  std::vector<GpHyper> starts;
  if (last != nullptr) {
    starts.push_back(*last);
    starts.back().weights.resize(kinds.size(), 1.0);
  }
  if (starts.empty() || used.size() < kManyRows) starts.push_back(default_hyper(kinds.size()));
  GpHyper out = fit_hyper(
      points, targets(role, used), kinds, starts, {.deterministic = options_.deterministic});
  round_hyper(out);
  return out;
}

GpFit GpModel::fit() const {
  GpFit out{
      .rows = rows_.rows().size(), .deepest = rows_.deepest(), .objective = {}, .feasibility = {}};
  out.objective = fitted(Role::kObjective, out.deepest, adopted_ ? &adopted_->objective : nullptr);
  if (rows_.has_infeasible()) {
    const bool again = adopted_ && adopted_->feasibility;
    out.feasibility =
        fitted(Role::kFeasibility, out.deepest, again ? &*adopted_->feasibility : nullptr);
  }
  return out;
}

/// Makes the surrogate for the fit unless it is there, and adds the rows that came since.
void GpModel::follow(std::optional<Surrogate>& surrogate, Role role, const GpFit& fit) const {
  const std::string memo = fit.memo();
  if (!surrogate || surrogate->memo != memo) {
    // The kernel takes as many columns as it has weights; points always have the depth.
    std::vector<uint8_t> kinds = axes_.hamming();
    kinds.push_back(0);
    surrogate.reset();
    surrogate.emplace(Surrogate{
        .role = role,
        .memo = memo,
        .posterior = GpPosterior(std::move(kinds),
                                 role == Role::kObjective ? fit.objective : *fit.feasibility),
        .used = chosen(role, fit.rows),
        .seen = fit.rows,
        .running = {}});
    PointSet points(axes_.columns() + 1, surrogate->used.size());
    for (const size_t i : surrogate->used) points.append(point(role, i, fit.deepest));
    surrogate->posterior.assign(points);
  }
  Surrogate& s = *surrogate;
  if (s.seen < rows_.rows().size()) {
    s.posterior.truncate(s.used.size());
    s.running.clear();
  }
  for (; s.seen < rows_.rows().size(); ++s.seen) {
    if (!is_used(role, rows_.rows()[s.seen])) continue;
    s.posterior.append(point(role, s.seen, fit.deepest));
    s.used.push_back(s.seen);
  }
}

void GpModel::follow_running(Surrogate& surrogate) const {
  std::vector<std::vector<double>> running = rows_.running();
  // Of thousands the latest, so that the first one changes only now and then.
  if (running.size() > 2 * kRunningRows) {
    const size_t gone = (running.size() / kRunningRows - 1) * kRunningRows;
    running.erase(running.begin(), running.begin() + static_cast<ptrdiff_t>(gone));
  }
  size_t same = 0;
  while (same < running.size() && same < surrogate.running.size() &&
         running[same] == surrogate.running[same])
    ++same;
  surrogate.posterior.truncate(surrogate.used.size() + same);
  for (size_t i = same; i < running.size(); ++i) {
    std::vector<double> at = running[i];
    at.push_back(1);
    surrogate.posterior.append(at, kStabilizingNoise);
  }
  surrogate.running = std::move(running);
}

/// Of rows at full depth, if there is one; then of the stopped ones.
void GpModel::find_best(const std::vector<double>& targets) {
  const auto rank = [](const GpRow& row) {
    return row.kind != GpRow::kScore ? 0 : row.whole ? 2 : 1;
  };
  int best_rank = -1;
  for (size_t i = 0; i < targets.size(); ++i) {
    const GpRow& row = rows_.rows()[objective_->used[i]];
    if (rank(row) < best_rank || (rank(row) == best_rank && targets[i] <= best_)) continue;
    best_rank = rank(row);
    best_ = targets[i];
    incumbent_ = row.columns;
  }
  has_score_ = best_rank > 0;
}

/// From scores to targets: standardized() shifts and stretches what is finite.
void GpModel::find_line(const std::vector<double>& targets) {
  line_ = {};
  bool any = false;
  double last = 0;  // target of the most
  for (size_t i = 0; i < targets.size(); ++i) {
    const double score = rows_.rows()[objective_->used[i]].score;
    if (!std::isfinite(score)) continue;
    if (!any || score < line_.least) line_.least = score, line_.target = targets[i];
    if (!any || score > line_.most) line_.most = score, last = targets[i];
    any = true;
  }
  if (line_.most > line_.least) line_.slope = (last - line_.target) / (line_.most - line_.least);
}

const GpFit& GpModel::update() {
  if (is_due()) {
    const std::string from = adopted_ ? adopted_->memo() : "";
    if (!fresh_ || fresh_rows_ != rows_.rows().size() || fresh_from_ != from) {
      fresh_ = fit();
      fresh_rows_ = rows_.rows().size();
      fresh_from_ = from;
    }
  }
  const GpFit& used = is_due() ? *fresh_ : *adopted_;
  follow(objective_, Role::kObjective, used);
  const std::vector<double> objective = targets(Role::kObjective, objective_->used);
  objective_->posterior.set_targets(objective);
  follow_running(*objective_);

  find_best(objective);
  find_line(objective);
  if (!used.feasibility) {
    feasibility_.reset();
    return used;
  }
  follow(feasibility_, Role::kFeasibility, used);
  feasibility_->posterior.set_targets(targets(Role::kFeasibility, feasibility_->used));
  return used;
}

}  // namespace muster::tune
