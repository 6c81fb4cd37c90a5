// What the parameters of --strategy pipeline say.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <utility>

#include "muster/base/counted.h"
#include "muster/base/text.h"
#include "muster/pipeline/draw/gantt.h"
#include "muster/pipeline/schedule/schedule.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/replicas/pipeline_strategy.h"

namespace muster::train::detail {
namespace {

constexpr int64_t kMostTimeoutS = 1'000'000;
constexpr std::string_view kRuleFlag = "--activation-checkpointing";

/// Throws what the schedule says of the sizes, or, where `split` has another number of stages than it
/// takes, that.
void require_sizes(const PipelineStrategyOptions& options,
                   const pipeline::PipelineSizes& sizes,
                   std::string_view owner) {
  try {
    pipeline::make_schedule(options.schedule, sizes);
  } catch (const Error& error) {
    const auto& entry = pipeline::schedules().at(parse_spec(options.schedule).name);
    const int64_t stages = sizes.ranks * entry.stages_per_rank;
    if (options.split == kMeasured || sizes.stages == stages) throw;
    pipeline::make_schedule(options.schedule, {stages, sizes.ranks, sizes.micro_batches});
    throw usage_error(
        {.refused = concat(owner, ": split"),
         .rule = concat("of ", entry.name, ", ", error.text().rule),
         .value = concat(options.split,
                         ", ",
                         counted(sizes.stages, "stage"),
                         " on ",
                         counted(sizes.ranks, "rank")),
         .hint = concat("name the ",
                        counted(stages, "unit"),
                        stages == 1 ? " that the stage begins with" : " that the stages begin with",
                        ", or leave split away")});
  }
}

const pipeline::ScheduleEntry& entry_of(const std::string& schedule) {
  return pipeline::schedules().at(parse_spec(schedule).name);
}

/// Those that the options leave to choose from.
std::vector<std::string> open_schedules(const PipelineStrategyOptions& options) {
  return options.schedule == kMeasured ? pipeline::schedules().names()
                                       : std::vector<std::string>{options.schedule};
}

bool takes(const std::string& schedule, const pipeline::PipelineSizes& sizes) {
  try {
    pipeline::make_schedule(schedule, sizes);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

pipeline::Split split_from(const std::string& text, std::string_view owner) {
  pipeline::Split first_block;
  for (const std::string& part : split(text, '/')) {
    const auto number = to_int(part);
    if (!number || (first_block.empty() ? *number != 0 : *number <= first_block.back())) {
      throw usage_error({.refused = concat(owner, ": split"),
                         .rule = "auto, or by stage the number of the unit that it begins with, "
                                 "from 0 and rising, as in 0/3/5",
                         .value = text.empty() ? "\"\"" : text});
    }
    first_block.push_back(*number);
  }
  return first_block;
}

std::string text_of_split(const pipeline::Split& first_block) {
  std::vector<std::string> numbers;
  for (const int64_t number : first_block) numbers.push_back(std::to_string(number));
  return join(numbers, "/");
}

PipelineStrategyOptions pipeline_options(const ParamValues& params, std::string_view owner) {
  auto options = resolve_params<PipelineStrategyOptions>(kPipelineParams, params, owner);
  if (options.schedule != kMeasured) pipeline::schedules().at(parse_spec(options.schedule).name);
  constexpr int64_t kMost = 1 << 16;
  if (options.micro_batches < 0 || options.micro_batches > kMost) {
    throw usage_error({.refused = concat(owner, ": micro_batches"),
                       .rule = concat("from 1 to ", kMost, ", or 0: measured"),
                       .value = std::to_string(options.micro_batches)});
  }
  if (options.split != kMeasured) {
    split_from(options.split, owner);
    const bool open = options.schedule == kMeasured;
    if (open || options.micro_batches == kMeasuredMicroBatches) {
      throw usage_error(
          {.refused = concat(owner, ": split with ", open ? "schedule=auto" : "micro_batches=0"),
           .rule = "what is measured is cut where that is best",
           .value = options.split,
           .hint = "leave split away, or name the schedule and micro-batches"});
    }
  }
  for (const auto& [name, seconds] :
       {std::pair("timeout", options.timeout), std::pair("stall_timeout", options.stall_timeout)}) {
    if (seconds >= 0 && seconds <= kMostTimeoutS) continue;
    throw usage_error({.refused = concat(owner, ": ", name),
                       .rule = concat("seconds, to ", kMostTimeoutS, ", or 0: the group's"),
                       .value = shortest(seconds)});
  }
  if (!options.gantt.empty()) pipeline::check_gantt_file(concat(owner, ": gantt"), options.gantt);
  return options;
}

int64_t ranks_of_pipeline(int64_t world_size,
                          const PipelineStrategyOptions& options,
                          std::string_view owner) {
  const int64_t ranks = options.ranks == 0 ? world_size : options.ranks;
  if (ranks < 1 || ranks > world_size || world_size % ranks != 0) {
    throw usage_error(
        {.refused = concat(owner, ": ranks"),
         .rule = concat("0, for one pipeline over all, or a divisor of the number of ranks, ",
                        world_size),
         .value = std::to_string(options.ranks)});
  }
  if (options.schedule == kMeasured) return ranks;
  const int64_t stages = stage_counts(options, ranks).front();
  const bool is_open = options.micro_batches == kMeasuredMicroBatches;
  // Every schedule takes as many micro-batches as there are ranks.
  require_sizes(options, {stages, ranks, is_open ? ranks : options.micro_batches}, owner);
  return ranks;
}

std::vector<int64_t> stage_counts(const PipelineStrategyOptions& options, int64_t ranks) {
  if (options.split != kMeasured) return {std::ssize(split_from(options.split, "split"))};
  std::set<int64_t> counts;
  for (const std::string& schedule : open_schedules(options))
    counts.insert(ranks * entry_of(schedule).stages_per_rank);
  return {counts.begin(), counts.end()};
}

void require_stage_budgets(const std::string& rule, const std::vector<int64_t>& stages) {
  const auto budgets = std::ssize(parallel::parse_block_rule(rule, kRuleFlag).stage_budgets);
  if (budgets == 0 || std::ranges::count(stages, budgets) > 0) return;
  std::vector<std::string> counts;
  for (const int64_t count : stages) counts.push_back(std::to_string(count));
  const size_t behind = rule.find(',');
  throw usage_error(
      {.refused = concat(kRuleFlag, ' ', rule),
       .rule = concat("one budget for each stage, of which there are ", join(counts, " or ")),
       .value = concat(budgets, " budgets"),
       .hint = concat("name as many, or the one that each rank has: budget:BYTES",
                      behind == std::string::npos ? "" : rule.substr(behind))});
}

void check_stage_budgets(const std::string& rule,
                         const PipelineStrategyOptions& options,
                         int64_t ranks) {
  const auto budgets = std::ssize(parallel::parse_block_rule(rule, kRuleFlag).stage_budgets);
  const bool may_be_known = options.split == kMeasured;  // to the record of a run that goes on
  for (const std::string& schedule : open_schedules(options))
    if (may_be_known && budgets > 0 && takes(schedule, {budgets, ranks, ranks})) return;
  require_stage_budgets(rule, stage_counts(options, ranks));
}

std::chrono::milliseconds timeout_of(double seconds) {
  // Rounded up: 0 would mean another one.
  return std::chrono::milliseconds(std::llround(std::ceil(1e3 * seconds)));
}

}  // namespace muster::train::detail
