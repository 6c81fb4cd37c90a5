#include "muster/train/loop/device_replay.h"

#include <algorithm>
#include <string>

#include <torch/nn/module.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/peer_failure.h"
#include "muster/train/device/rank_device.h"
#include "muster/train/loop/task_parts.h"

namespace muster::train {
namespace {

/// cudaErrorAssert and hipErrorAssert, and what texts of errors without a code say.
constexpr std::string_view kAssertion = "device-side assert";

/// The same run on the CPU: one batch at a time, by the thread that asks.
FitPlan plan_on_cpu(const FitPlan& plan) {
  FitPlan here = plan;
  std::ranges::fill(here.devices, c10::Device(c10::kCPU));
  here.options.workers = 0;
  here.options.loader_timeout = 0;
  return here;
}

/// The step of the batch in which an index was outside, from 0; nothing if in none.
std::optional<int64_t> first_bad_step(Task& task,
                                      data::Loader& loader,
                                      const FitPlan& plan,
                                      const StepsUnderWay& under_way,
                                      const tensor::IndexWatch& watch) {
  const int64_t per_step = plan.options.accumulate_grad_batches;
  data::Epoch epoch = loader.epoch(under_way.first.epoch, under_way.first.samples);
  for (int64_t batch = 0; batch < under_way.steps * per_step; ++batch) {
    const std::optional<data::Batch> next = epoch.next();
    if (!next) return std::nullopt;
    const int64_t step = under_way.first.step + batch / per_step;
    try {
      task.train_step(*next,
                      {.phase = Phase::kTrain, .step = step, .epoch = under_way.first.epoch});
    } catch (const std::exception&) {  // the CPU's kernel says the same, or has other troubles
      if (!watch.found()) return std::nullopt;
    }
    if (watch.found()) return step;
  }
  return std::nullopt;
}

}  // namespace

bool is_device_assertion(const std::exception_ptr& error) {
  if (!error) return false;
  try {
    std::rethrow_exception(error);
  } catch (const distributed::PeerFailure&) {
    return false;  // of another rank, which looks itself
  } catch (const std::exception& caught) {
    if (std::string_view(caught.what()).find(kAssertion) != std::string_view::npos) return true;
    try {
      std::rethrow_if_nested(caught);
      return false;
    } catch (...) {
      return is_device_assertion(std::current_exception());
    }
  } catch (...) {
    return false;
  }
}

std::optional<ReplayedIndex> replay_on_cpu(const FitRequest& run,
                                           const distributed::ProcessGroup& group,
                                           const StepsUnderWay& under_way) noexcept {
  if (under_way.steps == 0) return std::nullopt;
  try {
    const FitPlan here = plan_on_cpu(run.plan);
    const std::unique_ptr<Task> task = make_seeded(run.task, here.options.seed, Seeds::kOfTheCpu);
    task->module()->train();
    const auto loader = make_loader(here, run.data.train, group);
    const tensor::IndexWatch watch;
    const auto step = first_bad_step(*task, *loader, here, under_way, watch);
    if (!step) return std::nullopt;
    return ReplayedIndex{.found = *watch.found(), .step = *step + 1};
  } catch (...) {  // the run has failed already, and its own words say of what
    return std::nullopt;
  }
}

void rethrow_with_index(const FitRequest& run,
                        const distributed::ProcessGroup& group,
                        const StepsUnderWay& under_way) {
  if (!is_device_assertion(std::current_exception())) throw;
  const auto bad = replay_on_cpu(run, group, under_way);
  if (!bad) throw;
  const tensor::BadIndex& found = bad->found;
  std::throw_with_nested(usage_error(
      {.refused = concat("step ",
                         bad->step,
                         " on ",
                         device_of_rank(run.plan, group.rank()),
                         ": ",
                         kAssertion,
                         " triggered, in ",
                         found.op),
       .rule = found.last < found.first
                   ? concat(found.counts, ", so that there is no ", found.indices)
                   : concat(found.indices,
                            " is from ",
                            found.first,
                            " to ",
                            found.last,
                            ", since ",
                            found.counts),
       .value = concat(tensor::place_text(found), ", ", found.bad, " of ", found.all, " outside"),
       .hint = "the CPU says so of the same batch: correct the data, or make the model as large"
               " as they are"}));
}

}  // namespace muster::train
