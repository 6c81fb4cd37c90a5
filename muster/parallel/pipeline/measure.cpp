#include "muster/parallel/pipeline/measure.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/pipeline/carrier.h"
#include "muster/parallel/pipeline/stage.h"
#include "muster/parallel/threads/device_threads.h"
#include "muster/tensor/device/device_memory.h"
#include "muster/tensor/device/generators.h"
#include "muster/tensor/saved_tensors.h"
#include "muster/tensor/what_of.h"

namespace muster::parallel {
namespace {

using pipeline::BlockCosts;
using Clock = std::chrono::steady_clock;

/// As the tensor's device counts them.
double counted_bytes(const at::Tensor& tensor) {
  return static_cast<double>(
      tensor::block_bytes(tensor.device(), static_cast<int64_t>(tensor.nbytes())));
}

/// Memory that autograd holds now, each storage once, parameters apart.
class HeldMemory : public tensor::SavedTensorHooks {
 public:
  std::unique_ptr<tensor::SavedTensor> pack(const at::Tensor& tensor) override {
    return std::make_unique<Held>(*this, tensor);
  }

  /// All of them that there are.
  bool has(const Tensors& tensors) const {
    return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& tensor) {
      return !tensor.defined() || !tensor.has_storage() ||
             counts_.contains(tensor.storage().unsafeGetStorageImpl());
    });
  }
  double bytes() const {
    double sum = 0;
    for (const auto& [storage, count] : counts_)
      sum += static_cast<double>(
          tensor::block_bytes(storage->device(), static_cast<int64_t>(storage->nbytes())));
    return sum;
  }

 private:
  // Backward of a measured block runs in one thread at a time, and is over before anybody looks.
  class Held : public tensor::SavedTensor {
   public:
    Held(HeldMemory& memory, const at::Tensor& tensor) : memory_(memory), tensor_(tensor) {
      if (!tensor.has_storage() || tensor::is_of_parameter(tensor)) return;
      storage_ = tensor.storage().unsafeGetStorageImpl();
      ++memory_.counts_[storage_];
    }
    ~Held() override {
      if (storage_ != nullptr && --memory_.counts_[storage_] == 0) memory_.counts_.erase(storage_);
    }
    at::Tensor unpack() override { return tensor_.get(); }

   private:
    HeldMemory& memory_;
    tensor::UnchangedTensor tensor_;
    c10::StorageImpl* storage_ = nullptr;
  };

  std::map<c10::StorageImpl*, int64_t> counts_;
};

/// A block on a device, as it was when this goes.
class Borrowed {
 public:
  explicit Borrowed(const Block& block) : block_(block), parameters_(parameters_of(block)) {
    const at::NoGradGuard no_grad;
    const NamedTensors buffers = buffers_of(block);
    for (const auto& [name, buffer] : buffers) buffers_.push_back(buffer.clone());
    for (const auto& [name, parameter] : parameters_)
      gradients_.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
  }
  ~Borrowed() {
    try {
      give_back();
    } catch (const std::exception&) {
      // A device that has failed gives nothing back; what it failed with is on its way already.
    }
  }
  Borrowed(const Borrowed&) = delete;

  void bring_to(c10::Device device) { there_.emplace(block_, device); }

  double parameter_bytes() const {
    double bytes = 0;
    for (const auto& [name, parameter] : parameters_) bytes += counted_bytes(parameter);
    return bytes;
  }

 private:
  void give_back() {
    const at::NoGradGuard no_grad;
    for (const auto& [name, parameter] : parameters_) parameter.mutable_grad() = at::Tensor();
    there_.reset();
    for (size_t i = 0; i < parameters_.size(); ++i)
      parameters_[i].second.mutable_grad() = gradients_[i];
    size_t next = 0;
    for (const auto& [name, buffer] : buffers_of(block_))
      at::Tensor(buffer).copy_(buffers_[next++]);
  }

  const Block& block_;
  NamedTensors parameters_;
  std::vector<at::Tensor> gradients_, buffers_;
  std::optional<BlockOnDevice> there_;
};

/// One block on one micro-batch.
class Measurement {
 public:
  Measurement(const Block& block,
              const Handed& inputs,
              const PipelineLoss* loss,
              const Tensors* targets,
              c10::Device device,
              bool again)
      : stage_({block}, device, {again}),
        block_(block),
        again_(again),
        inputs_(inputs),
        loss_(loss),
        targets_(targets),
        device_(device) {}

  /// Which of two neighbours hold the tensors between them.
  struct Between {
    bool in_forward = false;   ///< until backward of the input
    bool after_input = false;  ///< and still then
  };

  /// Times of one round, and bytes, which are the same in each. `before`: what the block before
  /// holds of this one's inputs, which are not counted again.
  BlockCosts round(const Between& before) {
    BlockCosts costs;
    HeldMemory held;
    stage_.begin(1, false);
    {
      const tensor::SavedTensorScope scope(held);
      costs.forward_s = timed([&] { forward(); });
    }
    const double input_bytes = bytes_of(inputs_.tensors);
    const bool holds_input = held.has(inputs_.tensors);
    holds_output_.in_forward = loss_ == nullptr && held.has(outputs_.tensors);
    costs.activation_bytes = held.bytes() - (holds_input && before.in_forward ? input_bytes : 0);
    costs.input_bytes = holds_input && !before.in_forward ? 0 : input_bytes;
    costs.output_bytes =
        loss_ != nullptr || holds_output_.in_forward ? 0 : bytes_of(outputs_.tensors);
    grow(costs.work_bytes, peak_ - now());
    costs.backward_s = timed([&] { stage_.backward(0, gradients_); });
    grow(costs.work_bytes, peak_ - before_ + bytes_of(gradients_));
    {
      const tensor::SavedTensorScope scope(held);
      forward();
    }
    costs.input_s = timed([&] { stage_.backward_input(0, gradients_); });
    costs.caught_bytes = static_cast<double>(stage_.caught_bytes(0));
    grow(costs.work_bytes, peak_ - before_ - costs.caught_bytes);
    holds_output_.after_input = loss_ == nullptr && held.has(outputs_.tensors);
    costs.kept_bytes =
        held.bytes() - (held.has(inputs_.tensors) && before.after_input ? input_bytes : 0);
    costs.weight_s = timed([&] { stage_.backward_weight(0); });
    grow(costs.work_bytes, peak_ - before_);
    if (device_.is_cpu()) {
      costs.work_bytes = input_bytes + bytes_of(outputs_.tensors);
      if (again_) costs.work_bytes += bytes_kept_plainly();
    }
    return costs;
  }

  const Between& holds_output() const { return holds_output_; }
  Handed outputs() const { return outputs_; }

 private:
  void forward() {
    outputs_ = stage_.forward(0, inputs_);
    gradients_.clear();
    if (loss_ != nullptr) {
      stage_.loss(0, *loss_, *targets_, 1, 1);
      return;
    }
    for (size_t i = 0; i < outputs_.tensors.size(); ++i)
      gradients_.push_back(outputs_.needs_gradient[i] ? at::ones_like(outputs_.tensors[i])
                                                      : at::Tensor());
  }

  /// What the block keeps where it is not checkpointed, its inputs apart.
  double bytes_kept_plainly() {
    HeldMemory held;
    Stage plain({block_}, device_);  // is gone before `held` is
    plain.begin(1, false);
    {
      const tensor::SavedTensorScope scope(held);
      plain.forward(0, inputs_);
    }
    return held.bytes() - (held.has(inputs_.tensors) ? bytes_of(inputs_.tensors) : 0);
  }

  // Of the device's memory; the host's allocator does not say.
  auto allocated() const {
    return at::accelerator::getDeviceStats(device_.index()).allocated_bytes[0];
  }
  double now() const { return device_.is_cpu() ? 0 : static_cast<double>(allocated().current); }

  template <class Work>
  double timed(Work&& work) {
    synchronize();
    before_ = now();
    if (!device_.is_cpu()) at::accelerator::resetPeakStats(device_.index());
    const auto start = Clock::now();
    work();
    synchronize();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    peak_ = device_.is_cpu() ? 0 : static_cast<double>(allocated().peak);
    return seconds;
  }

  static void grow(double& most, double value) { most = std::max(most, value); }

  void synchronize() const {
    if (!device_.is_cpu())
      c10::impl::VirtualGuardImpl(device_.type()).synchronizeDevice(device_.index());
  }

  static double bytes_of(const Tensors& tensors) {
    double bytes = 0;
    for (const at::Tensor& tensor : tensors)
      if (tensor.defined()) bytes += counted_bytes(tensor);
    return bytes;
  }

  Stage stage_;
  const Block& block_;
  bool again_;
  const Handed& inputs_;
  const PipelineLoss* loss_;
  const Tensors* targets_;
  c10::Device device_;
  Handed outputs_;
  Tensors gradients_;
  Between holds_output_;
  double before_ = 0, peak_ = 0;  // bytes of the device, of what was timed last
};

/// Of each time the least: whatever else runs on the machine makes one longer, and a core that is taken away
/// for a while a small block's two of three (seen: 66 ms in place of 0.5, and a cut that gave the block a rank).
BlockCosts shortest(const std::vector<BlockCosts>& rounds) {
  BlockCosts costs = rounds.back();
  for (const auto cost : {&BlockCosts::forward_s,
                          &BlockCosts::backward_s,
                          &BlockCosts::input_s,
                          &BlockCosts::weight_s})
    costs.*cost = std::ranges::min(rounds, {}, cost).*cost;
  return costs;
}

double bytes_of(const Handed& handed, bool with_gradient) {
  double bytes = 0;
  for (size_t i = 0; i < handed.tensors.size(); ++i)
    if (handed.tensors[i].defined() && (!with_gradient || handed.needs_gradient[i]))
      bytes += counted_bytes(handed.tensors[i]);
  return bytes;
}

}  // namespace

std::vector<BlockCosts> measure_blocks(const std::vector<Block>& blocks,
                                       const MicroBatch& example,
                                       const PipelineLoss& loss,
                                       c10::Device device,
                                       const MeasureOptions& options) {
  require_device(device);
  const tensor::GeneratorAsItWas host(tensor::default_generator(c10::kCPU));
  const tensor::GeneratorAsItWas own(tensor::default_generator(device));
  std::vector<BlockCosts> all;
  const auto measure = [&] {
    Handed inputs =
        on_device({example.inputs, std::vector<bool>(example.inputs.size(), false)}, device);
    const Handed targets = on_device({example.targets, {}}, device);
    Measurement::Between before;
    for (const Block& block : blocks) {
      const bool last = all.size() + 1 == blocks.size();
      Borrowed borrowed(block);
      borrowed.bring_to(device);
      const bool again =
          all.size() < options.checkpointed.size() && options.checkpointed[all.size()];
      Measurement measurement(
          block, inputs, last && loss ? &loss : nullptr, &targets.tensors, device, again);
      std::vector<BlockCosts> rounds;
      const int warm_up = std::max(0, options.warm_up);
      for (int i = 0; i < warm_up + std::max(1, options.repeats); ++i) {
        const BlockCosts round = measurement.round(before);
        if (i >= warm_up) rounds.push_back(round);
      }
      BlockCosts costs = shortest(rounds);
      costs.parameter_bytes = borrowed.parameter_bytes() * (1 + options.bytes_beside_parameter);
      before = measurement.holds_output();
      inputs = measurement.outputs();
      if (!last) {
        costs.handed_bytes = bytes_of(inputs, false);
        costs.gradient_bytes = bytes_of(inputs, true);
      }
      if (options.bytes_per_s > 0) {
        costs.activation_s = bytes_of(inputs, false) / options.bytes_per_s;
        costs.gradient_s = bytes_of(inputs, true) / options.bytes_per_s;
      }
      all.push_back(costs);
    }
  };
  // A thread of its own: its number of threads inside operations is the ranks'.
  DeviceThreads({device}, options.threads_per_rank, "measurement")
      .run(
          [&](int) {
            try {
              measure();
            } catch (const Error&) {
              throw;
            } catch (...) {
              tensor::throw_behind(concat("block ", blocks.at(all.size()).name));
            }
          },
          [](int, const std::string&) {});
  return all;
}

}  // namespace muster::parallel
