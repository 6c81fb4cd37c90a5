#include "muster/train/loop/run_start.h"

#include <algorithm>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include "muster/base/counted.h"
#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tensor/intraop_threads.h"
#include "muster/train/checkpoints/kept_plan.h"
#include "muster/train/checkpoints/model_state.h"
#include "muster/train/loop/alike_on_ranks.h"
#include "muster/train/replicas/first_rank.h"

namespace muster::train {
namespace {

/// What the checkpoint's plan says under `name`, or `otherwise` if it does not, as those of earlier
/// versions.
template <class Value>
Value planned(const Checkpoint& checkpoint, const char* name, const Value& otherwise) {
  const auto found = checkpoint.plan.find(name);
  if (found == checkpoint.plan.end()) return otherwise;
  try {
    return found->get<Value>();
  } catch (const Json::exception&) {
    return otherwise;
  }
}

/// --test-weights best needs the checkpoint of the best epoch so far: found out now, not after the
/// last epoch.
void check_best(const FitPlan& plan, const Checkpoint& from, const std::filesystem::path& output) {
  if (plan.options.test_weights != "best" || from.best_step < 0 ||
      from.best_step == from.position.step)
    return;
  const auto run = from.folder.empty() ? std::nullopt : run_of(from.folder);
  read_best(run.value_or(output), from.best_step);
}

/// Of a split whose size is the same and whose content is not; else nothing. It is said and not
/// refused: a label that was mended is a reason to go on.
std::vector<std::string> notes_on_data(const FitPlan& plan, const Checkpoint& resume) {
  std::vector<std::string> notes;
  const auto compare =
      [&](const char* split, const char* name, const std::string& now, const char* effect) {
        const auto before = planned(resume, name, now);
        if (before == now) return;
        notes.push_back(concat("the ",
                               split,
                               " split has other content than when the run began (fingerprint ",
                               now,
                               ", before ",
                               before,
                               "): ",
                               effect));
      };
  compare("training",
          "train_fingerprint",
          plan.train_fingerprint,
          "it does not end as an unbroken run would");
  compare("test",
          "test_fingerprint",
          plan.test_fingerprint,
          "its accuracy cannot be compared with an earlier one");
  compare("validation",
          "validation_fingerprint",
          plan.validation_fingerprint,
          "the best epoch so far was chosen by other samples");
  return notes;
}

/// See Note [Kept plan].
void keep_told(const FitPlan& plan,
               const Checkpoint& from,
               const std::filesystem::path& output,
               const RunLog& log) {
  if (from.folder.empty()) return;  // not from a disk
  Json told = plan.record;
  told.update(plan.carried);
  const Json kept = with_options_of(from.plan, told);
  if (kept == from.plan) return;
  try {
    withdraw_config(output);
    keep_plan(checkpoint_folder(output, from.position.step), kept);
  } catch (const Error& error) {
    const std::string why = error.what();
    log.note(concat(first_line(why), ": what was told anew is forgotten if nothing is saved"));
  }
}

/// Lines for people about what a resumed run cannot promise.
std::vector<std::string> resume_notes(const FitPlan& plan, const Checkpoint& resume) {
  std::vector<std::string> notes = notes_on_data(plan, resume);
  const auto threads = planned(resume, "intraop_threads", plan.intraop_threads);
  if (threads != plan.intraop_threads && resume.world_size == plan.world_size) {
    notes.push_back(concat("threads per rank: ",
                           plan.intraop_threads,
                           ", before ",
                           threads,
                           "; sums round otherwise, so the run agrees with an unbroken one but for "
                           "rounding (OMP_NUM_THREADS=",
                           threads * std::max<int64_t>(1, plan.threads),
                           " for the same bits)"));
  }
  if (!resume.has_checksum) {
    notes.push_back(
        "the checkpoint is of an earlier format: damage to its state.json would not be noticed");
  }
  return notes;
}

}  // namespace

void check_same_data(const FitPlan& plan, const Checkpoint& resume) {
  const auto before = planned(resume, "train_samples", plan.train_samples);
  if (before == plan.train_samples) return;
  std::string hint = "begin a new run in another folder";
  if (plan.record.contains("weights") && !resume.folder.empty()) {  // not a task of one's own
    hint = concat("name the data's folder with --data-dir, or begin a new run with --weights ",
                  (resume.folder / "model.safetensors").string());
  }
  throw usage_error({.refused = "--resume",
                     .rule = "a run goes on with the data that it began with",
                     .value = concat(plan.train_samples, " samples to train, before ", before),
                     .hint = std::move(hint)});
}

void check_limits(const FitOptions& options, const Checkpoint& resume) {
  const formats::TrainPosition& at = resume.position;
  const auto refuse = [&](const char* flag, int64_t limit, std::string done) {
    throw usage_error({.refused = flag,
                       .rule = "a run goes on to a limit that is not behind it",
                       .value = concat(limit, ", after ", done),
                       .hint = "name a later one, or --resume an older checkpoint of the run"});
  };
  const int64_t epochs = options.epochs, max_steps = options.max_steps;
  if (at.epoch > epochs || (at.epoch == epochs && at.samples > 0)) {
    refuse("--epochs",
           epochs,
           concat(counted(at.epoch, "epoch"), at.samples > 0 ? " and a part" : ""));
  }
  if (max_steps > 0 && at.step > max_steps)
    refuse("--max-steps", max_steps, counted(at.step, "step"));
}

tensor::MathModes math_modes_of(const FitOptions& options) {
  return {.deterministic = options.deterministic,
          .float32_matmul_precision = options.float32_matmul_precision};
}

void begin_on_rank(const FitPlan& plan,
                   const distributed::ProcessGroup& group,
                   const std::optional<Checkpoint>& resume) {
  if (at::get_num_threads() != plan.intraop_threads)
    tensor::set_own_intraop_threads(static_cast<int>(plan.intraop_threads));
  check_alike_on_ranks(plan, group, resume);
  if (!resume) return;
  check_limits(plan.options, *resume);
}

std::unique_ptr<RunFolder> open_run_folder(const FitPlan& plan,
                                           const std::filesystem::path& output,
                                           const Checkpoint* from,
                                           RunFolder* owned,
                                           const RunLog& log) {
  std::unique_ptr<RunFolder> mine;
  if (owned == nullptr) mine = std::make_unique<RunFolder>(output);
  RunFolder& folder = owned != nullptr ? *owned : *mine;
  folder.check(from);
  if (from) check_best(plan, *from, output);
  for (const std::string& line : folder.prepare(from)) log.note(line);
  if (from) {
    keep_told(plan, *from, output, log);
    for (const std::string& line : resume_notes(plan, *from)) log.note(line);
  }
  return mine;
}

void load_on_all_ranks(const torch::nn::Module& model,
                       const distributed::ProcessGroup& group,
                       const std::function<Checkpoint()>& read,
                       const std::function<void(const tensor::LoadedTensor& tensor)>& load) {
  std::vector<tensor::LoadedTensor> matched;
  on_first_rank(group, [&] { matched = match_model_state(model, read().model); });
  size_t next = 0;
  for (const auto& [name, own] : model_state(model)) {
    at::Tensor told = group.rank() == 0 ? std::move(matched[next++].saved)
                                        : at::empty(own.sizes(), own.options().device(at::kCPU));
    if (group.world_size() > 1) group.broadcast(told);
    load({.name = name, .own = own, .saved = told});
  }
}

}  // namespace muster::train
