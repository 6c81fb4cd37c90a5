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

StageTreatment all_again(std::span<const BudgetStage> stages) {
  StageTreatment all{.again = {}, .offloaded = std::vector<bool>(stages.size())};
  for (const BudgetStage& stage : stages) all.again.emplace_back(stage.blocks.size(), true);
  return all;
}

/// ", with 2 blocks run again and 1 stage on the host"
std::string how_text(const StageTreatment& treatment) {
  int64_t again = 0;
  for (const std::vector<bool>& of_stage : treatment.again)
    again += std::ranges::count(of_stage, true);
  const int64_t offloaded = std::ranges::count(treatment.offloaded, true);
  std::vector<std::string> parts;
  if (again > 0) parts.push_back(concat(counted(again, "block"), " run again"));
  if (offloaded > 0) parts.push_back(concat(counted(offloaded, "stage"), " on the host"));
  return parts.empty() ? "" : ", with " + join(parts, " and ");
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

int64_t least_budget(std::span<const BudgetStage> stages, double offload_bytes_per_s) {
  return least_budget(peak_bytes(stages, all_again(stages)), [&](int64_t bytes) {
    return cheapest_treatment(stages, bytes, offload_bytes_per_s).has_value();
  });
}

StageTreatment treatment_within(std::span<const BudgetStage> stages,
                                int64_t budget_bytes,
                                double offload_bytes_per_s,
                                std::string_view whose,
                                const std::function<std::string()>& hint) {
  if (auto made = cheapest_treatment(stages, budget_bytes, offload_bytes_per_s)) return *made;
  const int64_t least = least_budget(stages, offload_bytes_per_s);
  const StageTreatment made =
      cheapest_treatment(stages, least, offload_bytes_per_s).value_or(all_again(stages));
  int64_t blocks = 0;
  for (const BudgetStage& stage : stages) blocks += std::ssize(stage.blocks);
  throw usage_error(
      {.refused = concat("activations of ",
                         whose,
                         whose.empty() ? "" : ": ",
                         counted(blocks, "block"),
                         " within a budget"),
       .rule = concat("they need ", least, " bytes at least", how_text(made)),
       .value = human_bytes(static_cast<uint64_t>(budget_bytes)),
       .hint = hint ? hint() : concat("take budget:", least, " or more, or a smaller batch")});
}

}  // namespace muster::parallel
