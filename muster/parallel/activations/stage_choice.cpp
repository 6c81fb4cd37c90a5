#include "muster/parallel/activations/stage_choice.h"

#include <algorithm>
#include <utility>

#include "muster/base/counted.h"
#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::parallel {
namespace {

// Of one rank: with more stages on a rank than any schedule has, none is offloaded.
constexpr size_t kMostOffloaded = 12;

/// The blocks with the stage's ends: it keeps what came in; what went out is counted apart.
std::vector<BlockBytes> with_ends(const BudgetStage& stage) {
  std::vector<BlockBytes> blocks = stage.blocks;
  blocks.front().saves_input = true;
  blocks.back().saves_output = false;
  return blocks;
}

/// All that a micro-batch keeps where nothing runs again, but for what went out.
int64_t whole_bytes(const BudgetStage& stage) {
  const std::vector<BlockBytes> blocks = with_ends(stage);
  return peak_bytes(blocks, std::vector<bool>(blocks.size()));
}

/// The stages that are not offloaded, as one row.
struct PlainRow {
  std::vector<BlockBytes> blocks;
  int64_t in_flight = 1, ends = 0;

  int64_t beside() const { return in_flight * ends; }
};

PlainRow row_of(std::span<const BudgetStage> stages, const std::vector<bool>& offloaded) {
  PlainRow row;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (offloaded[s]) continue;
    for (const BlockBytes& block : with_ends(stages[s])) row.blocks.push_back(block);
    row.in_flight = std::max(row.in_flight, stages[s].in_flight);
    row.ends += stages[s].blocks.back().output;
  }
  return row;
}

/// What offloaded stages have on the device.
int64_t offloaded_bytes(std::span<const BudgetStage> stages, const std::vector<bool>& offloaded) {
  int64_t stays = 0, passes = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (!offloaded[s]) continue;
    const BudgetStage& stage = stages[s];
    stays += stage.in_flight * (stage.blocks.front().input + stage.blocks.back().output);
    passes = std::max(passes, whole_bytes(stage));
  }
  return stays + passes;
}

/// The cheapest one that offloads just these stages.
std::optional<StageTreatment> cheapest_beside(std::span<const BudgetStage> stages,
                                              std::vector<bool> offloaded,
                                              int64_t budget_bytes,
                                              double offload_bytes_per_s) {
  const PlainRow row = row_of(stages, offloaded);
  const int64_t left = budget_bytes - row.beside() - offloaded_bytes(stages, offloaded);
  if (left < 0) return std::nullopt;
  const auto choice = cheapest_choice(row.blocks, left, row.in_flight);
  if (!choice) return std::nullopt;
  StageTreatment made{.again = {}, .offloaded = std::move(offloaded)};
  size_t next = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    std::vector<bool>& again = made.again.emplace_back(stages[s].blocks.size());
    if (made.offloaded[s]) {
      made.cost += 2 * static_cast<double>(whole_bytes(stages[s])) / offload_bytes_per_s;
      continue;
    }
    for (size_t i = 0; i < again.size(); ++i) {
      again[i] = (*choice)[next++];
      if (again[i]) made.cost += stages[s].blocks[i].cost;
    }
  }
  return made;
}

}  // namespace

int64_t peak_bytes(std::span<const BudgetStage> stages, const StageTreatment& treatment) {
  const PlainRow row = row_of(stages, treatment.offloaded);
  std::vector<bool> again;
  for (size_t s = 0; s < stages.size(); ++s)
    if (!treatment.offloaded[s])
      again.insert(again.end(), treatment.again[s].begin(), treatment.again[s].end());
  return peak_bytes(row.blocks, again, row.in_flight) + row.beside() +
         offloaded_bytes(stages, treatment.offloaded);
}

std::optional<StageTreatment> cheapest_treatment(std::span<const BudgetStage> stages,
                                                 int64_t budget_bytes,
                                                 double offload_bytes_per_s) {
  std::optional<StageTreatment> best;
  const bool may_offload = offload_bytes_per_s > 0 && stages.size() <= kMostOffloaded;
  const unsigned ends = may_offload ? 1U << stages.size() : 1U;
  for (unsigned mask = 0; mask < ends; ++mask) {
    std::vector<bool> offloaded(stages.size());
    for (size_t s = 0; s < stages.size(); ++s) offloaded[s] = (mask >> s & 1U) != 0;
    auto made = cheapest_beside(stages, std::move(offloaded), budget_bytes, offload_bytes_per_s);
    if (!made) continue;
    const auto count = [](const StageTreatment& treatment) {
      return std::ranges::count(treatment.offloaded, true);
    };
    if (!best || made->cost < best->cost ||
        (made->cost == best->cost && count(*made) < count(*best)))
      best = std::move(made);
  }
  return best;
}

StageTreatment treatment_within(std::span<const BudgetStage> stages,
                                int64_t budget_bytes,
                                double offload_bytes_per_s,
                                std::string_view whose) {
  if (auto made = cheapest_treatment(stages, budget_bytes, offload_bytes_per_s)) return *made;
  StageTreatment all;
  int64_t blocks = 0;
  for (const BudgetStage& stage : stages) {
    all.again.emplace_back(stage.blocks.size(), true);
    blocks += std::ssize(stage.blocks);
  }
  all.offloaded.assign(stages.size(), false);
  const int64_t run_again = peak_bytes(stages, all);
  all.offloaded.assign(stages.size(), true);
  const int64_t on_host = peak_bytes(stages, all);
  throw usage_error(
      {.refused = concat("activations of ",
                         whose,
                         whose.empty() ? "" : ": ",
                         counted(blocks, "block"),
                         " within a budget"),
       .rule = concat(
           "with every block checkpointed they need ",
           run_again,
           " bytes",
           offload_bytes_per_s > 0 ? concat(", and with every stage on the host ", on_host) : ""),
       .value = human_bytes(static_cast<uint64_t>(budget_bytes)),
       .hint = "a larger budget, or a smaller batch"});
}

}  // namespace muster::parallel
