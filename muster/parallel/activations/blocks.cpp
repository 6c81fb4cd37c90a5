#include "muster/parallel/activations/blocks.h"

#include <map>
#include <utility>

#include "muster/parallel/activations/checkpointed.h"
#include "muster/tensor/saved_tensors.h"

namespace muster::parallel {
namespace {

using StorageAddress = const c10::StorageImpl*;

StorageAddress storage_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

int64_t storage_bytes(const at::Tensor& tensor) {
  return tensor.has_storage() ? static_cast<int64_t>(tensor.storage().nbytes()) : 0;
}

/// Keeps what is saved, and each piece of memory once.
class SavedMemory : public tensor::SavedTensorHooks {
 public:
  std::unique_ptr<tensor::SavedTensor> pack(const at::Tensor& tensor) override {
    if (tensor.has_storage() && !tensor::is_of_parameter(tensor))
      memory.emplace(storage_of(tensor), tensor.storage());
    return std::make_unique<Kept>(tensor);
  }

  std::map<StorageAddress, c10::Storage> memory;

 private:
  class Kept : public tensor::SavedTensor {
   public:
    explicit Kept(const at::Tensor& tensor) : tensor_(tensor) {}
    at::Tensor unpack() override { return tensor_.get(); }

   private:
    tensor::UnchangedTensor tensor_;
  };
};

}  // namespace

BlockCheckpoints::BlockCheckpoints(std::vector<bool> again, RecomputeOptions options)
    : again_(std::move(again)), options_(std::move(options)) {}

at::Tensor BlockCheckpoints::call(size_t number,
                                  const BlockForward& forward,
                                  const at::Tensor& input,
                                  std::vector<at::Tensor> buffers) const {
  if (number >= again_.size() || !again_[number]) return forward(input);
  RecomputeOptions options = options_;
  for (at::Tensor& buffer : buffers) options.buffers.push_back(std::move(buffer));
  return checkpointed(std::move(options), forward, input);
}

at::Tensor forward_blocks(torch::nn::Sequential& blocks,
                          at::Tensor input,
                          const BlockCheckpoints& checkpoints) {
  size_t number = 0;
  for (torch::nn::AnyModule& block : *blocks) {
    const auto forward = [block](const at::Tensor& x) mutable { return block.forward(x); };
    input = checkpoints.call(number++, forward, input, block.ptr()->buffers());
  }
  return input;
}

/// Held, so that no other memory gets the same address.
struct BlockMeter::Seen {
  std::map<StorageAddress, c10::Storage> memory;
};

BlockMeter::BlockMeter() : seen_(std::make_unique<Seen>()) {}
BlockMeter::~BlockMeter() = default;

at::Tensor BlockMeter::call(const BlockForward& forward, const at::Tensor& input) {
  SavedMemory saved;
  at::Tensor output;
  {
    const tensor::SavedTensorScope scope(saved);
    output = forward(input);
  }
  BlockBytes block{.input = storage_bytes(input), .output = storage_bytes(output)};
  block.saves_input = saved.memory.erase(storage_of(input)) > 0;
  block.saves_output = saved.memory.erase(storage_of(output)) > 0;
  for (const auto& [address, storage] : saved.memory) {
    if (seen_->memory.emplace(address, storage).second)
      block.inner += static_cast<int64_t>(storage.nbytes());
  }
  blocks_.push_back(block);
  return output;
}

}  // namespace muster::parallel
