#include "muster/train/loop/asked_run.h"

#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/formats/crc32.h"

namespace muster::train {
namespace {

/// As zero1 and zero2 keep them where they are told to: all that are not whole numbers.
bool is_bfloat16(const tensor::NamedTensorList& weights) {
  bool some = false;
  for (const auto& [name, weight] : weights) {
    if (!weight.is_floating_point()) continue;
    if (weight.scalar_type() != at::kBFloat16) return false;
    some = true;
  }
  return some;
}

}  // namespace

void check_same_samples(const data::Dataset& samples,
                        const std::string& data,
                        const distributed::ProcessGroup& group) {
  if (group.world_size() == 1) return;
  const std::vector<std::string> all = group.all_gather_text(concat(
      samples.size(), " samples (fingerprint ", formats::crc32_text(samples.fingerprint()), ')'));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw usage_error({.refused = "--data " + data,
                       .rule = "all ranks see the same samples",
                       .value = concat("rank 0 has ", all[0], ", rank ", rank, " has ", all[rank]),
                       .hint = "one copy of the data for each machine"});
  }
}

void take_dtype(torch::nn::Module& module, const Json& told) {
  if (told.at("bfloat16").get<bool>()) module.to(at::kBFloat16);
}

Json told_by_first(const Checkpoint& saved, const distributed::ProcessGroup& group) {
  const Json own = {{"plan", saved.plan},
                    {"step", saved.position.step},
                    {"epoch", saved.position.epoch},
                    {"averaged", saved.is_averaged},
                    {"bfloat16", is_bfloat16(saved.model)},
                    {"folder", saved.folder.string()},
                    {"task", saved.loop.value("task_name", Json())}};
  return parse_json(group.all_gather_text(group.rank() == 0 ? json_text(own) : "")[0],
                    "what rank 0 says");
}

}  // namespace muster::train
