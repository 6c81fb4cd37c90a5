// --lr find: steps with rising rates, on a copy of the run that is thrown away.
#include <limits>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/train/loop/lr_find.h"
#include "muster/train/loop/training.h"
#include "muster/train/replicas/first_rank.h"

namespace muster::train {
namespace {

/// What the next step of the search is made with, whatever its place.
class SearchedRate final : public optim::Schedule {
 public:
  explicit SearchedRate(const LrSearch& search)
      : Schedule({}, {.lr = 1, .total_steps = 1, .total_epochs = 1}, "--lr find"),
        search_(search) {}

 private:
  optim::ScheduleValue value(int64_t) const override { return {.lr = search_.lr()}; }

  const LrSearch& search_;
};

/// Only steps: nothing is validated, saved, averaged or written.
FitPlan search_plan(const FitPlan& plan) {
  FitPlan search = plan;
  FitOptions& options = search.options;
  options.val_check_interval = options.checkpoint_every = options.patience = 0;
  options.ema_decay = options.max_time = 0;
  options.tensorboard = "off";
  options.log_every = std::numeric_limits<int64_t>::max();
  return search;
}

FitPlan with_lr(const FitPlan& plan, const LrFound& found) {
  FitPlan out = plan;
  out.lr = found.lr();
  out.options.lr = out.lr;
  out.options.lr.found_by = plan.options.lr.search;
  out.record["lr"] = out.lr;
  out.record[kFoundBy] = out.options.lr.found_by;
  out.explained +=
      explained_line("found", concat("learning rate ", shortest(out.lr), ", by --lr find"));
  return out;
}

std::string line_of(const LrFound& found) {
  return concat(
      "learning rate ",
      shortest(found.lr()),
      " found in ",
      found.points.size(),
      " steps from ",
      shortest(found.points.front().lr),
      " to ",
      shortest(found.points.back().lr),
      " (",
      kLrSearchPlot,
      ", ",
      kLrSearchTable,
      found.falls ? ")" : "); it may be chance, so noisy are the losses: look at the plot");
}

}  // namespace

namespace detail {

std::optional<LrFound> Trainer::search_lr(const LrSearchOptions& options) {
  if (parts_.size() > 1) {
    throw usage_error({.refused = "--lr find",
                       .rule = "one optimizer has one rate to be found",
                       .value = concat("task ", task_->name(), " has ", parts_.size(), " parts"),
                       .hint = "give --lr a number"});
  }
  LrSearch search(options);
  searches_lr_ = true;
  bool some_made = false;
  schedule_ = std::make_unique<SearchedRate>(search);
  groups_->train_mode();
  try {
    while (!search.is_over()) {
      batches_.begin(loader_->epoch(position_.epoch, 0));
      while (position_.samples < plan_.samples_per_epoch && !search.is_over()) {
        train_step();
        hear_all();
        some_made |= step_made_;
        if (stop_wished_) return std::nullopt;
        search.add(step_meter_.metrics()["loss"]);
      }
      ++position_.epoch;
      position_.samples = 0;
    }
  } catch (const Diverged&) {
    search.diverged();
  }
  if (!some_made && scaler().enabled()) {
    throw usage_error(
        {.refused = "--lr find",
         .rule = "some of its steps change the weights",
         .value = concat("all ",
                         search.points().size(),
                         " were left out because of overflow, down to the loss scale ",
                         shortest(scaler().scale())),
         .hint = "search longer (find:steps=N), or begin with a smaller scale "
                 "(--precision 16-mixed:init_scale=…)"});
  }
  return found_lr(search);
}

}  // namespace detail

std::optional<FittedLr> find_lr(const FitRequest& run, const distributed::ProcessGroup& group) {
  const LrSearchOptions options = parse_lr_search(run.plan.options.lr.search);
  const FitRequest search{.task = run.task,
                          .data = run.data,
                          .plan = search_plan(run.plan),
                          .output = {},
                          .callbacks = {.stop_requested = run.callbacks.stop_requested}};
  std::optional<detail::Trainer> trainer;
  std::optional<LrFound> found;
  try {
    trainer.emplace(search, group).begin();
    found = trainer->search_lr(options);
  } catch (...) {
    if (!trainer) throw;
    detail::rethrow_with_memory(run, group, *trainer, "in the search for a learning rate");
  }
  trainer.reset();
  if (!found) return std::nullopt;
  on_first_rank(group, [&] {
    if (run.callbacks.note) run.callbacks.note(line_of(*found));
  });
  return FittedLr{.plan = with_lr(run.plan, *found), .found = std::move(*found)};
}

FitPlan with_lr_of(const FitPlan& plan, const Checkpoint& checkpoint) {
  FitPlan out = plan;
  if (!checkpoint.plan.contains("lr")) {  // of a plan that nobody recorded
    out.options.lr = plan.lr;
    return out;
  }
  out.options.lr = kept_rate(checkpoint.plan, plan.options.lr.search);
  out.lr = *out.options.lr.value;
  out.record["lr"] = out.lr;
  out.record[kFoundBy] = out.options.lr.found_by;
  return out;
}

FitCallbacks also_writing(const FitCallbacks& callbacks,
                          const FittedLr& lr,
                          const std::filesystem::path& output) {
  FitCallbacks out = callbacks;
  out.folder_ready = [&lr, output, ready = callbacks.folder_ready] {
    write_lr_search(lr.found, lr.plan.title, output);
    if (ready) ready();
  };
  return out;
}

}  // namespace muster::train
