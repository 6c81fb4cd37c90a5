#include "muster/train/loop/asked_run.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/loader/loader.h"
#include "muster/formats/crc32.h"
#include "muster/tensor/bfloat16.h"
#include "muster/train/checkpoints/kept_plan.h"
#include "muster/train/checkpoints/saved_weights.h"
#include "muster/train/device/out_of_memory.h"
#include "muster/train/loop/run_start.h"
#include "muster/train/plan/fit_plan.h"

namespace muster::train {
namespace {

/// As zero1 and zero2 keep them where they are told to; see tensor::to_bfloat16.
bool is_bfloat16(const tensor::NamedTensorList& weights) {
  return std::any_of(weights.begin(), weights.end(), [](const auto& weight) {
    return weight.second.scalar_type() == at::kBFloat16;
  });
}

}  // namespace

void check_batch_size(const AskOptions& ask) {
  if (ask.batch_size >= 1 || ask.batch_size == -1) return;
  throw usage_error({.refused = "--batch-size",
                     .rule = "at least 1, or -1 for that of the run's own test",
                     .value = std::to_string(ask.batch_size)});
}

Checkpoint read_asked(const AskOptions& ask) {
  Checkpoint saved = read_weights(ask.run, ask.weights);
  const auto run = run_of(saved.folder);
  std::error_code none;
  if (!run || !std::filesystem::equivalent(*run, ask.run, none)) return saved;
  if (const auto told = kept_plan(ask.run)) saved.plan = with_options_of(saved.plan, *told);
  return saved;
}

void check_same_samples(const data::Dataset& samples,
                        const std::string& data,
                        const distributed::ProcessGroup& group) {
  if (group.world_size() == 1) return;
  const std::vector<std::string> all = group.all_gather_text(concat(
      samples.size(), " samples (fingerprint ", formats::crc32_text(samples.fingerprint()), ')'));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw usage_error({.refused = data,
                       .rule = "all ranks see the same samples",
                       .value = concat("rank 0 has ", all[0], ", rank ", rank, " has ", all[rank]),
                       .hint = "one copy of the data for each machine"});
  }
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

void load_asked(Task& task,
                c10::Device device,
                const Json& told,
                Checkpoint saved,
                const distributed::ProcessGroup& group) {
  if (!device.is_cpu()) {
    with_memory_words(
        device, "at the start", "take another --device", [&] { task.move_to(device); });
  }
  if (told.at("bfloat16").get<bool>()) tensor::to_bfloat16(*task.module());
  load_on_all_ranks(
      *task.module(),
      group,
      [&] { return std::move(saved); },
      [](const tensor::LoadedTensor& tensor) { tensor.own.detach().copy_(tensor.saved); });
}

EvaluateOptions asked_options(const AskOptions& ask,
                              const Surroundings& around,
                              const Json& told,
                              Precision precision) {
  const int64_t of_run = told.at("plan").value("eval_batch_size", FitOptions().eval_batch_size);
  return {.batch_size = ask.batch_size > 0 ? ask.batch_size : of_run,
          .workers = ask.workers >= 0
                         ? ask.workers
                         : data::default_workers(around.cores, around.local_world_size),
          .precision = precision,
          .step = told.at("step").get<int64_t>(),
          .epoch = told.at("epoch").get<int64_t>()};
}

}  // namespace muster::train
