#include "muster/train/checkpoints/checkpoint_writer.h"

#include <utility>

#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>

namespace muster::train {
namespace {

/// Nobody else can change or see it: a tensor that was put together for this checkpoint.
bool is_ours_alone(const at::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.storage().use_count() == 1 && tensor.is_cpu() &&
         tensor.is_contiguous();
}

/// `to` becomes a copy of `from`, on the CPU, in the memory that it has where shapes agree: fresh
/// pages for a whole model cost more than the copy itself. Tensors that are ours alone are taken as
/// they are, and noted in `taken`.
void copy_tensors(tensor::NamedTensorList& from,
                  tensor::NamedTensorList& to,
                  std::vector<at::Tensor*>& taken) {
  const c10::NoGradGuard no_grad;
  to.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    auto& [name, tensor] = from[i];
    auto& [name_copy, copy] = to[i];
    name_copy = name;
    if (is_ours_alone(tensor)) {
      copy = std::move(tensor);
      taken.push_back(&copy);
      continue;
    }
    if (!copy.defined() || copy.sizes() != tensor.sizes() ||
        copy.scalar_type() != tensor.scalar_type()) {
      copy = at::empty_like(tensor,
                            tensor.options().device(at::kCPU).requires_grad(false),
                            at::MemoryFormat::Contiguous);
    }
    copy.copy_(tensor);
  }
}

}  // namespace

CheckpointWriter::CheckpointWriter(std::filesystem::path output, int64_t keep)
    : output_(std::move(output)), keep_(keep), thread_([this] { work(); }) {}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CheckpointWriter::wait_idle(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [this] { return !due_ && !busy_; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void CheckpointWriter::start(Checkpoint checkpoint) {
  std::unique_lock lock(mutex_);
  wait_idle(lock);
  for (const auto part : {&Checkpoint::model, &Checkpoint::optimizer, &Checkpoint::rng}) {
    copy_tensors(checkpoint.*part, copy_.*part, taken_);
    checkpoint.*part = std::move(copy_.*part);
  }
  for (auto& [name, tensors] : checkpoint.more) {
    tensor::NamedTensorList& copy = copy_.more[name];
    copy_tensors(tensors, copy, taken_);
    tensors = std::move(copy);
  }
  copy_ = std::move(checkpoint);
  due_ = true;
  lock.unlock();
  changed_.notify_all();
}

std::filesystem::path CheckpointWriter::wait() {
  std::unique_lock lock(mutex_);
  wait_idle(lock);
  return newest_;
}

void CheckpointWriter::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return due_ || closing_; });
    if (!due_) return;
    due_ = false;
    busy_ = true;
    lock.unlock();  // start() does not touch copy_ while busy_
    std::filesystem::path folder;
    std::exception_ptr error;
    try {
      folder = write_checkpoint(output_, copy_);
      remove_old_checkpoints(output_, keep_);
    } catch (...) {
      error = std::current_exception();
    }
    for (at::Tensor* tensor : taken_) *tensor = at::Tensor();  // not kept for the next one
    taken_.clear();
    lock.lock();
    busy_ = false;
    if (error) {
      error_ = error;
    } else {
      newest_ = folder;
    }
    changed_.notify_all();
  }
}

}  // namespace muster::train
