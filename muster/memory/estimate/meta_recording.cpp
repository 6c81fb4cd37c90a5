#include "muster/memory/estimate/meta_recording.h"

#include <utility>

#include <c10/core/Allocator.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>

#include "muster/base/error.h"

namespace muster::memory {
namespace {

using Log = MetaRecording::Log;

thread_local std::shared_ptr<Log>* meta_log = nullptr;

/// What the deleter of a storage gets back.
struct MetaTag {
  std::shared_ptr<Log> log;
  uint32_t block = 0;
};

void end_meta_block(void* context) {
  const std::unique_ptr<MetaTag> tag(static_cast<MetaTag*>(context));
  const std::lock_guard lock(tag->log->mutex);
  tag->log->trace.events.push_back({tag->block, false});
}

/// Whose a storage is that is made now; see Note [Owners].
Owner owner_at_birth() {
  if (torch::autograd::get_current_node() != nullptr) return Owner::kGradient;
  return c10::GradMode::is_enabled() ? Owner::kActivation : Owner::kOther;
}

class MetaFront final : public c10::Allocator {
 public:
  explicit MetaFront(c10::Allocator* behind) : behind_(behind) {}

  c10::DataPtr allocate(size_t bytes) override {
    if (meta_log == nullptr || bytes == 0) return behind_->allocate(bytes);
    auto tag = std::make_unique<MetaTag>(MetaTag{*meta_log});
    {
      const std::lock_guard lock(tag->log->mutex);
      MetaTrace& trace = tag->log->trace;
      tag->block = static_cast<uint32_t>(trace.blocks.size());
      trace.blocks.push_back({static_cast<int64_t>(bytes), owner_at_birth()});
      trace.events.push_back({tag->block, true});
    }
    return {nullptr, tag.release(), &end_meta_block, c10::Device(c10::kMeta)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return behind_->raw_deleter(); }
  void copy_data(void* /*to*/, const void* /*from*/, size_t /*bytes*/) const override {}

 private:
  c10::Allocator* behind_;
};

/// Puts the allocator in front, once.
void stand_in_front() {
  static std::mutex once;
  static c10::Allocator* front = nullptr;
  constexpr uint8_t kPriority = 1;
  const std::lock_guard lock(once);
  if (front == nullptr) {
    auto mine = std::make_unique<MetaFront>(c10::GetAllocator(c10::kMeta));
    c10::SetAllocator(c10::kMeta, mine.get(), kPriority);
    front = mine.release();  // storages may outlive whoever recorded them
  }
  if (c10::GetAllocator(c10::kMeta) == front) return;
  throw environment_error({.refused = "an estimate on the meta device",
                           .rule = "its allocator is LibTorch's own, with Muster's in front",
                           .value = "another one stands there"});
}

}  // namespace

MetaRecording::MetaRecording() : log_(std::make_shared<Log>()) {
  if (meta_log != nullptr) {
    throw usage_error(
        {.refused = "an estimate inside of another one", .rule = "a thread makes one at a time"});
  }
  stand_in_front();
  meta_log = &log_;
}

MetaRecording::~MetaRecording() { meta_log = nullptr; }

void MetaRecording::claim(const at::Tensor& tensor, Owner owner) {
  if (!tensor.defined() || !tensor.is_meta() || !tensor.has_storage()) return;
  const c10::DataPtr& data = tensor.storage().data_ptr();
  if (data.get_deleter() != &end_meta_block || data.get_context() == nullptr) return;
  const auto* tag = static_cast<const MetaTag*>(data.get_context());
  if (tag->log != log_) return;
  const std::lock_guard lock(log_->mutex);
  log_->trace.blocks[tag->block].owner = owner;
}

MetaTrace MetaRecording::trace() const {
  const std::lock_guard lock(log_->mutex);
  return log_->trace;
}

}  // namespace muster::memory
