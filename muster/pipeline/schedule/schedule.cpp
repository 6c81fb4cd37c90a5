#include "muster/pipeline/schedule/schedule.h"

#include "muster/base/counted.h"
#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::pipeline {
namespace {

constexpr int64_t kMostRanks = 4096;
constexpr int64_t kMostForwards = 4'000'000;  // stages times micro-batches

}  // namespace

Schedule make_schedule(const std::string& spec, const PipelineSizes& sizes) {
  const Spec parsed = parse_spec(spec);
  return schedules().at(parsed.name).make(sizes, parsed.params);
}

void require_sizes(std::string_view schedule,
                   const PipelineSizes& sizes,
                   int64_t least,
                   int64_t most) {
  const auto& [stages, ranks, micro_batches] = sizes;
  if (ranks < 1 || ranks > kMostRanks)  // before what may have been made of them
    throw usage_error({.refused = concat("the sizes of a pipeline make no sense for ", schedule),
                       .rule = concat("there are 1 to ", kMostRanks, " ranks"),
                       .value = concat(ranks)});
  if (micro_batches < 1 || stages < 1 || stages > kMostForwards / micro_batches) {
    throw usage_error({.refused = concat("the sizes of a pipeline make no sense for ", schedule),
                       .rule = concat("there are at least one stage and micro-batch; stages times "
                                      "micro-batches are at most ",
                                      kMostForwards),
                       .value = concat(counted(stages, "stage"),
                                       ", ",
                                       counted(ranks, "rank"),
                                       ", ",
                                       counted(micro_batches, "micro-batch", "micro-batches"))});
  }
  if (stages % ranks == 0 && stages / ranks >= least && stages / ranks <= most) return;
  std::string rule = "there are as many stages as ranks";
  if (most > 1 && least == most) rule = concat("each rank has ", least, " stages");
  if (most > least) rule = concat("all ranks have equally many stages, at least ", least);
  throw usage_error({.refused = concat("the stages do not suit ", schedule),
                     .rule = rule,
                     .value = concat(counted(stages, "stage"), " on ", counted(ranks, "rank")),
                     .hint = "see `muster list schedules`"});
}

}  // namespace muster::pipeline
