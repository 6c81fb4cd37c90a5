// A device's memory in fit(): what is noted of it, what activations may take, and the words when it runs out.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/memory/allocator/counters.h"
#include "muster/memory/guard/guard.h"
#include "muster/memory/guard/oom.h"
#include "muster/memory/tracker/recent.h"
#include "muster/tensor/batch_norm.h"
#include "muster/tensor/device/device_memory.h"
#include "muster/tensor/device/generators.h"
#include "muster/train/device/memory_report.h"
#include "muster/train/device/out_of_memory.h"
#include "muster/train/loop/memory_advice.h"
#include "muster/train/loop/start_checks.h"
#include "muster/train/loop/training.h"

namespace muster::train::detail {
namespace {

/// Whether a run that has not begun may leave a report there: no other run's folder.
bool is_free_for(const std::filesystem::path& output, const std::optional<Checkpoint>& resume) {
  try {
    RunFolder::check(output, resume ? &*resume : nullptr);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

/// Behind each step: the allocator's lock, and a copy of its counters.
void Trainer::note_memory() {
  if (!is_late() || !counts_memory_) return;
  try {
    memory::note_iteration(
        device_,
        {.iteration = position_.step, .end_bytes = memory::device_counters(device_).current});
  } catch (const Error&) {  // a kind of device that does not count
    counts_memory_ = false;
  }
}

std::vector<memory::OwnedTensor> Trainer::owned_memory() noexcept {
  std::vector<memory::OwnedTensor> all;
  try {
    if (!module_) return all;
    all = memory::owned_tensors(module());
    for (const auto& part : parts_) {
      // In shards they are not the module's.
      for (const at::Tensor& holder : part->optimizer().parameters())
        all.push_back({holder.grad(), memory::Owner::kGradient, ""});
      for (const auto& [name, tensor] : part->optimizer().state()) {
        const size_t begin = name.find('/') + 1, end = name.rfind('.');  // "momentum/fc1.weight"
        const bool has_layer = end != std::string::npos && end > begin;
        all.push_back({tensor,
                       memory::Owner::kOptimizerState,
                       has_layer ? name.substr(begin, end - begin) : ""});
      }
      for (memory::OwnedTensor& one : part->strategy().owned_memory())
        all.push_back(std::move(one));
    }
  } catch (...) {  // what is there is told
  }
  return all;
}

std::vector<memory::OwnedMemory> Trainer::dropped_memory() noexcept {
  std::vector<memory::OwnedMemory> all;
  try {
    all = dropped_;
    for (const auto& part : parts_)
      for (memory::OwnedMemory& one : part->strategy().dropped_memory())
        all.push_back(std::move(one));
  } catch (...) {  // what is there is told
  }
  return all;
}

void Trainer::make_checkpoints() {
  std::vector<tensor::Unit> units = units_to_recompute(*task_, plan_);
  if (units.empty()) return;
  checkpoints_.emplace(recompute_rule(plan_),
                       std::move(units),
                       parallel::RecomputeOptions{.generators = {{generator_}}});
}

/// What a budget of activations leaves, found before anything is written: it may leave nothing.
void Trainer::measure_budget() {
  if (!checkpoints_ || checkpoints_->choice()) return;
  const c10::NoGradGuard no_grad;  // of the copies
  std::vector<at::Tensor> before;
  for (const at::Tensor& buffer : module().buffers()) before.push_back(buffer.clone());
  const tensor::GeneratorAsItWas generator(generator_);
  {
    const c10::AutoGradMode with_grad(true);
    const tensor::SharedBatches shared(plan_.options.sync_batch_norm && plan_.world_size > 1);
    drop_step(parts_[0]->strategy(), example_step(0, plan_.batch_per_rank));
  }
  size_t next = 0;
  for (const at::Tensor& buffer : module().buffers()) at::Tensor(buffer).copy_(before[next++]);
  if (!checkpoints_->choice()) return;
  const std::vector<bool>& again = *checkpoints_->choice();
  log_.note(
      concat("activations within ",
             plan_.options.activation_checkpointing.substr(std::string_view("budget:").size()),
             ": ",
             std::ranges::count(again, true),
             " of ",
             again.size(),
             " parts run again"));
}

/// Of the batches that this rank's device holds until the step is made, or behind their backwards, and
/// of the next, which is there already.
double Trainer::bytes_of_batches() const {
  const bool keeps_all = guard_ && keeps_batches_;
  const bool shares = parts_.size() > 1 || task_->has_own_weights();
  const int64_t next = plan_.samples_per_epoch > plan_.options.batch_size ? 1 : 0;
  const int64_t of_step = updates_ && !shares   ? 0
                          : keeps_all || shares ? plan_.options.accumulate_grad_batches
                                                : 1;
  int64_t of_batch = 0;
  const std::vector<int64_t> first{0};
  for (const auto& [name, tensor] : data_.train->get(first).tensors)
    of_batch +=
        tensor::block_bytes(device_, static_cast<int64_t>(tensor.nbytes()) * plan_.batch_per_rank);
  return static_cast<double>(of_batch) * static_cast<double>(of_step + next);
}

/// Whether what could not be had would have fitted beside smaller batches; nothing: nobody knows.
std::optional<bool> Trainer::is_room_in_batches() const noexcept {
  if (plan_.batch_per_rank == 1 && plan_.options.accumulate_grad_batches == 1) return false;
  try {
    const auto found = memory::out_of_memory_in(std::current_exception());
    if (!found || !found->asked) return std::nullopt;
    return bytes_of_batches() >= *found->asked - found->free.value_or(0) - found->idle.value_or(0);
  } catch (...) {  // of reading the sample: the error in hand counts more
    return std::nullopt;
  }
}

MemoryFailure Trainer::memory_failure(const memory::OomReport* report) const {
  using In = MemoryFailure::In;
  const bool is_smallest = guard_ && guard_->has_failed_at_smallest();
  MemoryFailure failure{.in = updates_ ? In::kUpdate : is_smallest ? In::kSmallest : in_};
  if (!module_) return failure;
  failure.has_units = !tensor::units_of(*module_).empty();
  failure.sees_batches = !memory::Guard::batch_layer(*module_).empty();
  if (const auto row = std::ssize(tensor::chain_of(*module_)); row > 0) failure.row = row;
  try {
    if (report != nullptr) failure.bytes = memory_needs(report->facts);
    failure.units = unit_needs();
  } catch (const std::exception&) {  // advice is of what is known
    failure.bytes.reset();
  }
  if (updates_ || is_smallest)
    failure.is_room_in_batches = is_room_in_batches().value_or(!updates_);
  return failure;
}

MemoryReportRequest Trainer::memory_request() {
  return {.device = device_of_rank(plan_, group_.rank()),
          .folder = run_.output,
          .is_ours = has_folder_ || is_free_for(run_.output, run_.resume),
          .rank = group_.rank(),
          .world_size = group_.world_size(),
          .owned = owned_memory(),
          .freed = dropped_memory()};
}

std::string Trainer::report_of_evaluation(const std::string& smaller_batch) noexcept {
  try {
    MemoryReportRequest request = memory_request();
    request.smaller_batch = smaller_batch;
    const auto report = explained_memory(request);
    return memory_lines(request, report ? &*report : nullptr);
  } catch (...) {  // the error in hand counts more
    return "";
  }
}

void rethrow_with_memory(const FitRequest& run,
                         const distributed::ProcessGroup& group,
                         Trainer& trainer,
                         std::string_view when) {
  if (!memory::is_oom(std::current_exception())) throw;
  const c10::Device device = device_of_rank(run.plan, group.rank());
  const MemoryReportRequest request = trainer.memory_request();
  const auto report = explained_memory(request);
  const memory::OomReport* const known = report ? &*report : nullptr;
  const std::string hint = memory_advice(run.plan, trainer.memory_failure(known));
  rethrow_in_memory_words(device, when, concat(hint, memory_lines(request, known)));
}

}  // namespace muster::train::detail
