// The model behind a searcher: fitted now and then, kept up to date in between.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/tune/search/gp/posterior.h"
#include "muster/tune/search/gp/rows.h"

namespace muster::tune {

/// Hyperparameters and what they were fitted to.
struct GpFit {
  size_t rows = 0;      ///< how many there were
  int64_t deepest = 1;  ///< GpRows::deepest then: the unit of depth
  GpHyper objective;
  std::optional<GpHyper> feasibility;  ///< if something was infeasible

  /// "40 81; 0.1234 … -9.2103; …": logarithms, to 1e-4. fit_hyper's result is rounded to these, so
  /// that a fit that went through a study's log is the one that was used.
  std::string memo() const;
  static std::optional<GpFit> from_memo(const std::string& memo);
};

struct GpModelOptions {
  bool deterministic = false;
  bool warp = false;           ///< half_ranked scores
  size_t max_rows = 2000;      ///< beyond these, the best half and the latest half
  size_t max_fit_rows = 1000;  ///< of which hyperparameters are fitted to every k-th
};

/// Whatever it answers is a function of the rows, of the adopted fit, and of the running trials; it
/// keeps what it computed as long as these stay.
class GpModel {
 public:
  GpModel(const GpAxes& axes, const GpRows& rows, const GpModelOptions& options)
      : axes_(axes), rows_(rows), options_(options) {}

  /// A trial was suggested by this fit: the next one starts from it, or is it until more trials have
  /// come.
  void adopt(GpFit fit) { adopted_ = std::move(fit); }

  /// Fits if there is no fit, a fiftieth more rows than the last one had, or something new to
  /// model; then brings the posteriors up to date. There is a row at least.
  const GpFit& update();

  /// After update(). Their last running() rows are trials under way.
  const GpPosterior& objective() const { return objective_->posterior; }
  const GpPosterior* feasibility() const {
    return feasibility_ ? &feasibility_->posterior : nullptr;
  }
  size_t running() const { return objective_->running.size(); }
  double best() const { return best_; }  ///< target of the best row at full depth
  const std::vector<double>& incumbent() const { return incumbent_; }  ///< its columns
  bool has_score() const { return has_score_; }

  /// What a score is as a target, after update(). Without warp, which is no straight line.
  double target_of(double score) const {
    return line_.target + (std::clamp(score, line_.least, line_.most) - line_.least) * line_.slope;
  }

 private:
  enum class Role { kObjective, kFeasibility };
  struct Surrogate {
    Role role;
    std::string memo;  // of the fit that it was made for
    GpPosterior posterior;
    std::vector<size_t> used;                  // rows
    size_t seen = 0;                           // rows that were looked at
    std::vector<std::vector<double>> running;  // columns of the rows after them
  };

  bool is_due() const;
  GpFit fit() const;
  GpHyper fitted(Role role, int64_t deepest, const GpHyper* last) const;
  std::vector<size_t> chosen(Role role, size_t rows) const;
  std::vector<double> targets(Role role, const std::vector<size_t>& used) const;
  std::vector<double> point(Role role, size_t row, int64_t deepest) const;
  std::vector<uint8_t> hamming(Role role) const;
  bool is_used(Role role, const GpRow& row) const;
  void follow(std::optional<Surrogate>& surrogate, Role role, const GpFit& fit) const;
  void follow_running(Surrogate& surrogate) const;
  void find_best(const std::vector<double>& targets);
  void find_line(const std::vector<double>& targets);

  const GpAxes& axes_;
  const GpRows& rows_;
  GpModelOptions options_;
  std::optional<GpFit> adopted_, fresh_;
  size_t fresh_rows_ = 0;
  std::string fresh_from_;  // memo of what fresh_ started from
  std::optional<Surrogate> objective_, feasibility_;
  struct Line {
    double least = 0, most = 0;  // finite scores
    double target = 0;           // of the least
    double slope = 0;
  } line_;
  double best_ = 0;
  bool has_score_ = false;
  std::vector<double> incumbent_;
};

}  // namespace muster::tune
