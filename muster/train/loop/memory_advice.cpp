#include "muster/train/loop/memory_advice.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "muster/base/text.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/schedule.h"
#include "muster/train/loop/resolve.h"
#include "muster/train/replicas/ddp_strategy.h"
#include "muster/train/replicas/strategy.h"

namespace muster::train {
namespace {

using In = MemoryFailure::In;

const StrategyEntry& strategy_of(const FitPlan& plan) {
  return strategies().at(plan.strategy_name);
}

bool makes_again(const FitPlan& plan) { return plan.options.on_oom != "fail"; }

/// What can be known of a way before it is tried; see Note [Advice on memory].
class Bounds {
 public:
  Bounds(const FitPlan& plan, const MemoryFailure& failure)
      : bytes_(failure.bytes),
        samples_(static_cast<double>(plan.batch_per_rank)),
        least_(failure.sees_batches ? 2 : 1),
        adds_(plan.options.accumulate_grad_batches > 1) {
    const StrategyEntry& strategy = strategy_of(plan);
    if (strategy.with_one_piece != nullptr)
      in_one_piece_ = strategy.with_one_piece(plan, plan.strategy_params);
    adds_ |= !in_one_piece_.empty();
    is_row_ = strategy.ranks_per_replica != nullptr;
    fills_buckets_ = strategy.fills_buckets && plan.world_size > 1 && !makes_again(plan);
  }

  /// Steps of the run as it is are of several pieces, or batches.
  bool adds() const { return adds_; }
  const std::string& in_one_piece() const { return in_one_piece_; }

  /// Whether a step may fit, of however few samples; of several pieces, or one.
  bool may_fit(bool adds) const { return !bytes_ || held(adds) + bytes_->state <= room(); }
  /// The same without state, where that is more room than there was.
  bool less_state_frees() const {
    if (!bytes_ || held(adds_) > room()) return false;
    return !may_fit(adds_) || (bytes_->state_is_held && bytes_->state >= bytes_->missing);
  }
  /// A step that could be made again would fit, which has no buckets.
  bool may_fit_without_buckets() const {
    return has_spare_buckets() &&
           held(adds_ || has_smaller()) - bytes_->spare_buckets + bytes_->state <= room();
  }
  /// All gradients are on the rank, and their buckets once more.
  bool has_spare_buckets() const { return bytes_ && bytes_->spare_buckets > 0; }
  /// A tensor is never cut, but into shards behind it.
  bool largest_fits() const { return !bytes_ || bytes_->largest_gradient <= bytes_->room; }
  bool weights_fit() const { return !bytes_ || bytes_->weights <= bytes_->room; }
  /// What very many ranks that share gradients and state leave on each: the weights, a bucket, and a
  /// gradient on its way there.
  bool weights_and_a_bucket_fit() const {
    constexpr double kBucketBytes = detail::DdpStrategyOptions().bucket_mb << 20;
    return !bytes_ ||
           bytes_->weights + std::min(bytes_->gradients, kBucketBytes) + bytes_->largest_gradient <=
               bytes_->room;
  }
  /// Stages of a unit each; of several pieces, or one.
  bool stages_fit(const std::vector<UnitNeeds>& units, bool adds) const {
    return !bytes_ || std::ranges::all_of(units, [&](const UnitNeeds& unit) {
      return unit.held + (adds ? unit.largest_gradient : 0) <= room();
    });
  }
  /// Units one by one, whose weights are there beside those of the unit that comes next in backward, and
  /// whose gradients are there once more on their way to shards.
  bool shards_fit(const std::vector<UnitNeeds>& units) const {
    for (size_t i = 0; i < units.size() && bytes_; ++i) {
      const double next = i > 0 ? units[i - 1].held / 2 : 0;
      if (units[i].held + units[i].largest_gradient + next > room()) return false;
    }
    return true;
  }

  /// Whether that share of what follows the batch, less `more`, is as much as was missing.
  bool frees(double share, double more = 0) const {
    return !bytes_ || (share > 0 && share * bytes_->of_batch - more >= bytes_->missing);
  }
  /// Whether a batch may fit in several pieces, or in more of them: the batch is there as a whole, and in
  /// a pipeline what waits to be sent. A second gradient that found no room there finds none in more.
  bool pieces_may_fit() const {
    if (!bytes_) return true;
    if (is_row_ && adds_ && bytes_->is_second_gradient) return false;
    constexpr double kWaits = 0.25;
    const double waits = is_row_ ? kWaits * std::max(0.0, bytes_->of_batch - bytes_->inputs) : 0;
    return held(true) - bytes_->spare_buckets + bytes_->state + bytes_->inputs + waits <= room();
  }
  bool has_smaller() const { return samples_ > least_; }
  /// Without what a sample takes at least. Nothing: not known.
  double room() const {
    constexpr double kOfOneSample = 0.02;
    return bytes_ ? (1 - kOfOneSample) * bytes_->room : 0;
  }
  /// The same of as few samples as there may be.
  bool batch_frees() const {
    return has_smaller() && frees(1 - static_cast<double>(least_) / samples_);
  }
  /// The same of what a row of so many units keeps for its backward. A half of it is taken to be of the
  /// unit that runs.
  bool recomputation_frees(double units) const {
    constexpr double kKept = 0.5;
    const double share = kKept * (units > 0 ? 1 - 1 / units : 1);
    return frees(share, bytes_ ? share * bytes_->inputs : 0);
  }
  /// The same of activations in 16 bits, beside which there are weights in 16 bits.
  bool half_frees() const { return frees(0.5, bytes_ ? bytes_->weights / 2 : 0); }

 private:
  double held(bool adds) const {
    return bytes_->weights + bytes_->gradients + bytes_->spare_buckets +
           (adds || fills_buckets_ ? bytes_->largest_gradient : 0);
  }

  const std::optional<MemoryNeeds>& bytes_;
  double samples_;
  double least_;
  bool adds_, fills_buckets_ = false, is_row_ = false;
  std::string in_one_piece_;
};

std::string with_last(const std::vector<std::string>& ways) {
  return concat(join(ways, ", "), ways.size() > 1 ? ", or " : " or ");
}

void add(std::vector<std::string>& ways, std::string way) {
  if (!way.empty()) ways.push_back(std::move(way));
}

/// Strategies under which no rank ever has the whole model, as far as the module and its units take them.
std::string placing_strategies(const FitPlan& plan,
                               const MemoryFailure& failure,
                               const Bounds& bounds) {
  std::vector<std::string> names;
  for (const StrategyEntry* entry : strategies()) {
    if (!entry->places_units) continue;
    // Where it is cut is measured, with two gradients.
    const bool fits = entry->ranks_per_replica != nullptr
                          ? failure.row.value_or(0) > 1 && bounds.stages_fit(failure.units, true)
                          : failure.has_units && bounds.shards_fit(failure.units);
    if (!fits) continue;
    const bool is_refused = makes_again(plan) && !entry->splits_steps;
    names.push_back(concat(entry->name, is_refused ? " (without --on-oom)" : ""));
  }
  if (names.empty() || !bounds.largest_fits()) return "";
  return concat("--strategy ", join(names, " or "), " on several devices");
}

/// How a rank comes to have less of the model; empty: it cannot. `adds`: in steps of several pieces.
/// `of_weights`: they are the ones that do not fit. What is said of very many devices holds of several.
std::string smaller_part(const FitPlan& plan,
                         const MemoryFailure& failure,
                         const Bounds& bounds,
                         bool adds,
                         bool of_weights = false) {
  const StrategyEntry& strategy = strategy_of(plan);
  const bool is_row = strategy.ranks_per_replica != nullptr;
  if (is_row && failure.row && *failure.row <= plan.ranks_per_replica) return "";
  if (is_row) return bounds.stages_fit(failure.units, adds) ? "more stages on more devices" : "";
  if (strategy.places_units) return bounds.shards_fit(failure.units) ? "more devices" : "";
  if (of_weights || !bounds.weights_and_a_bucket_fit())
    return placing_strategies(plan, failure, bounds);
  const bool splits = makes_again(plan);
  const bool is_placed = failure.has_units && bounds.shards_fit(failure.units);
  if (strategy.divides_model && bounds.has_spare_buckets()) {
    const bool shares_state = bounds.less_state_frees();
    return concat(
        "--strategy zero2", is_placed ? " or fsdp" : "", shares_state ? " or more devices" : "");
  }
  if (strategy.divides_model)
    return splits || !is_placed ? "more devices" : "--strategy fsdp or more devices";
  return !is_placed ? "--strategy zero2 on several devices"
         : splits   ? "--strategy zero2 (or fsdp, without --on-oom) on several devices"
                    : "--strategy zero2 or fsdp on several devices";
}

/// Blocks that run again keep less: of a row of units all but one, at most.
bool may_recompute(const FitPlan& plan, const MemoryFailure& failure, const Bounds& bounds) {
  if (plan.options.activation_checkpointing != "off" || !failure.has_units) return false;
  return bounds.recomputation_frees(static_cast<double>(failure.row.value_or(0)));
}

/// The run's schedule, which sets no momentum.
std::string schedule_without_momentum(const FitPlan& plan) {
  ParamValues params = plan.schedule_params;
  const optim::ScheduleEntry& entry = optim::schedules().at(plan.schedule_name);
  for (const auto& [name, value] :
       parse_spec(concat(entry.name, ':', entry.without_momentum)).params)
    params[name] = value;
  std::vector<std::string> words;
  for (const auto& [name, value] : params) words.push_back(concat(name, '=', value));
  return concat(entry.name, ':', join(words, ","));
}

/// Optimizers that keep less than the run's: those that keep nothing. Empty: it keeps nothing itself.
std::string smaller_state(const FitPlan& plan) {
  if (!optim::keeps_state(
          optim::optimizers().at(plan.optimizer_name), plan.optimizer_params, plan.most_momentum))
    return "";
  std::vector<std::string> without;
  for (const optim::OptimizerEntry* entry : optim::optimizers()) {
    if (entry->without_state.empty()) continue;
    without.push_back(concat(entry->name, ':', entry->without_state));
    if (optim::keeps_state(*entry, parse_spec(without.back()).params, plan.most_momentum))
      without.back() += concat(" with --lr-schedule ", schedule_without_momentum(plan));
  }
  return concat("an optimizer with less state (--optimizer ",
                join(without, " or "),
                without.size() > 1 ? " have none)" : " has none)");
}

/// Empty: the run cannot have it.
std::string split_steps(const FitPlan& plan, const MemoryFailure& failure, std::string_view what) {
  if (!may_split(plan.options, plan)) return "";
  return concat("--on-oom split", failure.sees_batches ? "-unequal" : "", ", which ", what);
}

/// What is left where no batch is to blame.
std::string smaller_model(const FitPlan& plan, const MemoryFailure& failure, const Bounds& bounds) {
  std::vector<std::string> ways;
  const bool is_step = failure.in == In::kSmallest || failure.in == In::kStep;
  // More ranks share no smaller buckets.
  const bool of_weights = failure.in == In::kWeights || !bounds.weights_fit() ||
                          (failure.in == In::kParts && strategy_of(plan).divides_model);
  if (is_step && bounds.less_state_frees()) add(ways, smaller_state(plan));
  if (is_step && bounds.may_fit_without_buckets() && !makes_again(plan))
    add(ways, split_steps(plan, failure, "averages gradients without buckets"));
  ways.emplace_back("a smaller model");
  add(ways, smaller_part(plan, failure, bounds, bounds.adds() || makes_again(plan), of_weights));
  if (is_step && bounds.may_fit(bounds.adds()) && may_recompute(plan, failure, bounds))
    ways.emplace_back("--activation-checkpointing blocks");
  return concat("no batch size helps; take ", with_last(ways), "a device with more memory");
}

/// What helps where the pieces of a step add their gradients to those that are there, and there is room
/// for one gradient of each weight.
std::string fewer_pieces(const FitPlan& plan, const MemoryFailure& failure, const Bounds& bounds) {
  std::vector<std::string> ways;
  if (!bounds.in_one_piece().empty())
    add(ways, concat("one micro-batch (--strategy ", bounds.in_one_piece(), ')'));
  if (plan.options.accumulate_grad_batches > 1) ways.emplace_back("no --accumulate-grad-batches");
  if (ways.empty()) ways.emplace_back("a --batch-size that fits without being split");
  std::vector<std::string> all{join(ways, " and ")};
  if (bounds.has_smaller() && bounds.adds())
    all.front() += ", with a smaller --batch-size if need be";
  all.emplace_back("a smaller model");
  add(all, smaller_part(plan, failure, bounds, /*adds=*/true));
  return concat(
      "it is a second gradient of a weight, which each part of a step behind the first one adds to "
      "the first gradient, however small it is: take ",
      with_last(all),
      "a device with more memory");
}

std::string smaller_steps(const FitPlan& plan, const MemoryFailure& failure, const Bounds& bounds) {
  const StrategyEntry& strategy = strategy_of(plan);
  const bool may_add = bounds.may_fit(true);
  constexpr double kHalf = 0.5;  // of what is under way, in twice as many pieces
  std::vector<std::string> ways;
  if (bounds.batch_frees())
    ways.push_back(concat("a smaller --batch-size",
                          may_add ? " (with --accumulate-grad-batches for the same steps)" : ""));
  if (strategy.with_smaller_pieces != nullptr && bounds.pieces_may_fit() && bounds.frees(kHalf)) {
    const std::string spec = strategy.with_smaller_pieces(plan, plan.strategy_params);
    if (!spec.empty()) ways.push_back(concat("more micro-batches (--strategy ", spec, ')'));
  }
  if (!makes_again(plan) && bounds.pieces_may_fit() && bounds.batch_frees())
    add(ways, split_steps(plan, failure, "does so by itself"));
  if (may_recompute(plan, failure, bounds)) ways.emplace_back("--activation-checkpointing blocks");
  if (plan.precision.kind == Precision::kFloat32 && bounds.half_frees())
    ways.emplace_back("--precision bf16-mixed");
  if (ways.empty()) return smaller_model(plan, failure, bounds);
  const bool shares_batch = !strategy.places_units && bounds.batch_frees();
  const std::string part =
      shares_batch ? "more devices" : smaller_part(plan, failure, bounds, may_add);
  return concat("take ", with_last(ways), part.empty() ? "a device with more memory" : part);
}

/// The same where the step's batches take room, too: all of them, until it is made.
std::string fewer_batches(const FitPlan& plan) {
  std::vector<std::string> ways;
  if (plan.batch_per_rank > 1) ways.emplace_back("a smaller --batch-size");
  if (plan.options.accumulate_grad_batches > 1) {
    ways.emplace_back("fewer --accumulate-grad-batches");
    ways.push_back(concat("--on-oom fail, which keeps one of them",
                          plan.batch_per_rank > 1 ? " and may want a smaller one" : ""));
  }
  ways.emplace_back("a smaller model");
  return concat("a step keeps all its batches on the device, so that it can be made again: take ",
                with_last(ways),
                "a device with more memory");
}

std::string smaller_update(const FitPlan& plan,
                           const MemoryFailure& failure,
                           const Bounds& bounds) {
  std::vector<std::string> ways;
  if (failure.is_room_in_batches)
    ways.emplace_back(plan.batch_per_rank > 1 ? "a smaller --batch-size"
                                              : "fewer --accumulate-grad-batches");
  add(ways, smaller_state(plan));
  if (plan.options.ema_decay > 0)
    ways.emplace_back("no --ema-decay, which keeps the weights twice");
  add(ways, smaller_part(plan, failure, bounds, bounds.adds()));
  ways.emplace_back("a smaller model");
  return concat(
      failure.in == In::kUpdate ? "it is the optimizer's step, " : "it is the optimizer's state, ",
      failure.is_room_in_batches ? "beside the batches that wait"
                                 : "which no batch size makes smaller",
      ": take ",
      with_last(ways),
      "a device with more memory");
}

std::string without_average(const FitPlan& plan,
                            const MemoryFailure& failure,
                            const Bounds& bounds) {
  std::vector<std::string> ways{"no --ema-decay, which keeps the weights twice", "a smaller model"};
  add(ways, smaller_part(plan, failure, bounds, bounds.adds()));
  return concat("no batch size helps; take ", with_last(ways), "a device with more memory");
}

/// A unit is measured with two gradients of each weight, as a step of several pieces has them, and with
/// two samples at least.
bool may_be_measured(const FitPlan& plan, const MemoryFailure& failure, const Bounds& bounds) {
  constexpr int64_t kLeastRows = 2;
  if (plan.batch_per_rank <= kLeastRows) return false;
  if (!failure.bytes) return true;
  double most = 0;
  for (const UnitNeeds& unit : failure.units)
    most = std::max(most, unit.held + unit.largest_gradient);
  const double of_batch = std::max(0.0, failure.bytes->of_batch - most);
  return most + of_batch * kLeastRows / static_cast<double>(plan.batch_per_rank) <= bounds.room();
}

std::string named_cut(const FitPlan& plan, const MemoryFailure& failure, const Bounds& bounds) {
  const StrategyEntry& strategy = strategy_of(plan);
  std::vector<std::string> ways;
  if (strategy.with_named_cut != nullptr && failure.bytes) {
    const std::string spec =
        strategy.with_named_cut(plan, plan.strategy_params, failure.units, bounds.room());
    const char* const smaller =
        bounds.has_smaller() ? ", with a smaller --batch-size if need be" : "";
    if (!spec.empty())
      ways.push_back(concat("a cut that is named (--strategy ", spec, ')', smaller));
  }
  if (ways.empty() && may_be_measured(plan, failure, bounds))
    ways.emplace_back("a smaller --batch-size");
  ways.emplace_back("a smaller model");
  return concat("it is a unit that is measured to find out where to cut: take ",
                with_last(ways),
                "a device with more memory");
}

}  // namespace

std::string memory_advice(const FitPlan& plan, const MemoryFailure& failure) {
  const Bounds bounds(plan, failure);
  switch (failure.in) {
    case In::kUpdate:
    case In::kState:
      return smaller_update(plan, failure, bounds);
    case In::kAverage:
      return without_average(plan, failure, bounds);
    case In::kCut:
      return named_cut(plan, failure, bounds);
    case In::kWeights:
    case In::kParts:
      return smaller_model(plan, failure, bounds);
    case In::kSmallest:
      if (failure.is_room_in_batches) return fewer_batches(plan);
      break;
    case In::kStep:
      break;
  }
  // With the fewest samples at a time a batch of more was split.
  const bool was_split = failure.in == In::kSmallest && makes_again(plan) && bounds.has_smaller();
  if ((bounds.adds() || was_split) && bounds.may_fit(false) && !bounds.may_fit(true))
    return fewer_pieces(plan, failure, bounds);
  if (failure.in == In::kSmallest || !bounds.may_fit(bounds.adds()))
    return smaller_model(plan, failure, bounds);
  return smaller_steps(plan, failure, bounds);
}

}  // namespace muster::train
