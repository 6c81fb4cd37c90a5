// What the parameters of --strategy pipeline say.
#include <cmath>
#include <filesystem>
#include <utility>

#include "muster/base/counted.h"
#include "muster/base/text.h"
#include "muster/pipeline/draw/gantt.h"
#include "muster/pipeline/schedule/schedule.h"
#include "muster/train/replicas/pipeline_strategy.h"

namespace muster::train::detail {
namespace {

constexpr int64_t kMostTimeoutS = 1'000'000;

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
  const auto& schedule = pipeline::schedules().at(parse_spec(options.schedule).name);
  const int64_t stages = options.split == kMeasured ? ranks * schedule.stages_per_rank
                                                    : std::ssize(split_from(options.split, owner));
  const bool is_open = options.micro_batches == kMeasuredMicroBatches;
  // Every schedule takes as many micro-batches as there are ranks.
  require_sizes(options, {stages, ranks, is_open ? ranks : options.micro_batches}, owner);
  return ranks;
}

std::chrono::milliseconds timeout_of(double seconds) {
  // Rounded up: 0 would mean another one.
  return std::chrono::milliseconds(std::llround(std::ceil(1e3 * seconds)));
}

}  // namespace muster::train::detail
