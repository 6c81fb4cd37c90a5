#include "muster/memory/allocator/release.h"

#include <algorithm>
#include <map>

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include "muster/base/text.h"
#include "muster/memory/allocator/cpu_memory.h"
#include "muster/memory/allocator/names.h"

namespace muster::memory {
namespace {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;
using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

/// One memory, and the tensors of it that are released.
struct Leaving {
  WeakStorage storage;
  HeldStorage facts;
  std::map<const c10::TensorImpl*, WeakTensor> tensors = {};
};

Leaving leaving(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  HeldStorage facts{.bytes = static_cast<int64_t>(storage.nbytes())};
  if (const Block* block = block_of(storage.data_ptr());
      block != nullptr && (block->flags & Block::kListed) != 0) {
    facts.scope = name_of(block->scope);
    facts.op = name_of(block->op);
    facts.iteration = block->iteration;
  }
  using StoragePtr = c10::intrusive_ptr<c10::StorageImpl>;
  return {WeakStorage(StoragePtr::reclaim_copy(storage.unsafeGetStorageImpl())), std::move(facts)};
}

std::string held_text(const HeldStorage& held) {
  std::string text = concat(human_bytes(static_cast<uint64_t>(held.bytes)), " is held: ");
  if (held.handles > 0)
    text += concat(held.handles, held.handles == 1 ? " other handle" : " other handles");
  else
    text += concat(
        held.sharers, held.sharers == 1 ? " tensor shares" : " tensors share", " its memory");
  if (!held.op.empty() || !held.scope.empty()) {
    text += ", made";
    if (!held.scope.empty()) text += concat(" in scope \"", held.scope, "\"");
    if (!held.op.empty()) text += concat(" by ", held.op);
    text += concat(" in iteration ", held.iteration);
  }
  return text;
}

}  // namespace

std::string Released::text() const {
  std::string text = concat("freed ", human_bytes(static_cast<uint64_t>(freed_bytes)));
  for (const HeldStorage& one : held) text += concat("; ", held_text(one));
  return text;
}

Released release_tensors(const std::vector<at::Tensor*>& tensors) {
  std::map<const c10::StorageImpl*, Leaving> all;
  for (const at::Tensor* tensor : tensors) {
    if (!tensor->defined() || !tensor->has_storage()) continue;
    const auto* storage = tensor->storage().unsafeGetStorageImpl();
    auto found = all.find(storage);
    if (found == all.end()) found = all.emplace(storage, leaving(*tensor)).first;
    found->second.tensors.try_emplace(tensor->unsafeGetTensorImpl(), tensor->getIntrusivePtr());
  }
  const bool recorded = recorded_level() != Level::kOff;
  const int64_t before = cpu_counters().current;
  for (at::Tensor* tensor : tensors) *tensor = at::Tensor();

  Released released;
  if (recorded) released.cpu_freed_bytes = before - cpu_counters().current;
  for (auto& [storage, one] : all) {
    const auto sharers = static_cast<int64_t>(one.storage.use_count());
    if (sharers == 0) {
      released.freed_bytes += one.facts.bytes;
      continue;
    }
    one.facts.sharers = sharers;
    for (const auto& [impl, weak] : one.tensors)
      one.facts.handles += static_cast<int64_t>(weak.use_count());
    released.held.push_back(one.facts);
  }
  std::stable_sort(released.held.begin(), released.held.end(), [](const auto& a, const auto& b) {
    return a.bytes > b.bytes;
  });
  return released;
}

Released release(std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor*> handles;
  for (at::Tensor& tensor : tensors) handles.push_back(&tensor);
  Released released = release_tensors(handles);
  tensors.clear();
  return released;
}

}  // namespace muster::memory
