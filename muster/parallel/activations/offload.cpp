#include "muster/parallel/activations/offload.h"

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <ATen/ops/empty_like.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/graph_task.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/device/copy_stream.h"
#include "muster/tensor/device/lost_device.h"
#include "muster/tensor/dtype_name.h"

namespace muster::parallel {
namespace {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

c10::Stream current_stream_of(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/// Whether a copy of it on the host would free as much on its device. A vector may be a running
/// statistic, which batch norms write to without telling autograd, while it would be copied.
bool can_move(const at::Tensor& tensor) {
  const c10::Device device = tensor.device();
  return tensor.dim() > 1 && !device.is_cpu() && !device.is_meta() &&
         tensor.layout() == at::kStrided &&
         static_cast<size_t>(tensor.nbytes()) <= tensor.storage().nbytes() &&
         !tensor::is_of_parameter(tensor);
}

}  // namespace

/// Memory that is saved, on the host.
struct ActivationOffload::Parcel {
  Parcel(const at::Tensor& tensor, int64_t count, std::shared_ptr<std::atomic<int64_t>> on_host)
      : number(count),
        storage(tensor.storage().getWeakStorageImpl()),
        storage_address(tensor.storage().unsafeGetStorageImpl()),
        counter(tensor.unsafeGetTensorImpl()->version_counter()),
        version(counter.current_version()),
        offset(tensor.storage_offset()),
        dtype(tensor.scalar_type()),
        sizes(tensor.sizes()),
        strides(tensor.strides()),
        device(tensor.device()),
        bytes_on_host(std::move(on_host)) {}
  ~Parcel() {
    if (!host.defined()) return;
    *bytes_on_host -= static_cast<int64_t>(host.nbytes());
    std::vector<at::Tensor> held{std::move(host)};
    if (on_way_back)
      for (at::Tensor& back : on_way_back->tensors) held.push_back(std::move(back));
    tensor::release_unless_lost(device, held);
  }
  Parcel(const Parcel&) = delete;
  Parcel& operator=(const Parcel&) = delete;

  bool is_changed() const { return counter.current_version() != version; }

  /// Whether `tensor` is what it holds.
  bool is_of(const at::Tensor& tensor) const {
    const auto alive = storage.lock();
    return alive && alive.get() == tensor.storage().unsafeGetStorageImpl() && !is_changed() &&
           offset == tensor.storage_offset() && dtype == tensor.scalar_type() &&
           tensor.sizes().equals(sizes) && tensor.strides().equals(strides);
  }

  int64_t number;  ///< in the order of saving
  WeakStorage storage;
  const c10::StorageImpl* storage_address;
  c10::VariableVersion counter;
  uint32_t version;
  int64_t offset;
  c10::ScalarType dtype;
  at::DimVector sizes, strides;
  c10::Device device;
  std::shared_ptr<std::atomic<int64_t>> bytes_on_host;
  at::Tensor host;                                        ///< pinned
  std::optional<c10::Event> out;                          ///< behind the copy to the host
  std::optional<tensor::CopyStream::Copies> on_way_back;  ///< asked for ahead
  int asked_in = -1;                                      ///< the last backward that asked for it
};

/// What tickets share; the last of them may outlive the hooks.
class ActivationOffload::Depot {
 public:
  explicit Depot(OffloadOptions options) : options_(options) {}

  /// The parcel of what `tensor` is, on its way to the host.
  std::shared_ptr<Parcel> parcel_of(const at::Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    const auto known = of_storage_.find(tensor.storage().unsafeGetStorageImpl());
    if (known != of_storage_.end()) {
      auto parcel = known->second.lock();
      if (parcel && parcel->is_of(tensor)) {
        bytes_.shared += static_cast<int64_t>(tensor.nbytes());
        return parcel;
      }
    }
    auto parcel = std::make_shared<Parcel>(tensor, next_++, on_host_);
    send_out(*parcel, tensor);
    parcels_.emplace(parcel->number, parcel);
    of_storage_.insert_or_assign(parcel->storage_address, parcel);
    return parcel;
  }

  void stays(const at::Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    bytes_.stayed += static_cast<int64_t>(tensor.nbytes());
  }

  /// It on its device again, for the calling thread's current stream.
  at::Tensor bring(Parcel& parcel) {
    const std::lock_guard lock(mutex_);
    if (parcel.is_changed()) throw changed(parcel);
    parcel.asked_in = torch::autograd::get_current_graph_task_id();
    if (!parcel.on_way_back) send_back(parcel);
    tensor::CopyStream::Copies copies = *std::exchange(parcel.on_way_back, std::nullopt);
    prefetch_before(parcel);
    return ways_of(parcel.device).back.arrive(std::move(copies)).front();
  }

  /// A ticket has gone; the caller holds its parcel no more.
  void forget(int64_t number, const c10::StorageImpl* storage_address) {
    const std::lock_guard lock(mutex_);
    const auto numbered = parcels_.find(number);
    if (numbered != parcels_.end() && numbered->second.expired()) parcels_.erase(numbered);
    const auto stored = of_storage_.find(storage_address);
    if (stored != of_storage_.end() && stored->second.expired()) of_storage_.erase(stored);
  }

  bool is_small(const at::Tensor& tensor) const {
    return static_cast<int64_t>(tensor.nbytes()) < options_.min_bytes;
  }

  OffloadBytes bytes() const {
    const std::lock_guard lock(mutex_);
    OffloadBytes bytes = bytes_;
    bytes.on_host = *on_host_;
    return bytes;
  }

 private:
  struct Ways {
    explicit Ways(c10::Device device) : out(device), back(device) {}
    tensor::CopyStream out, back;
  };

  static Error changed(const Parcel& parcel) {
    return usage_error({.refused = "backward",
                        .rule = "a tensor that it needs is not changed in place after the "
                                "operation that saved it",
                        .value = concat(tensor::dtype_name(parcel.dtype),
                                        at::IntArrayRef(parcel.sizes),
                                        " is at version ",
                                        parcel.counter.current_version(),
                                        " instead of ",
                                        parcel.version)});
  }

  Ways& ways_of(c10::Device device) {
    return ways_.try_emplace(device.index(), device).first->second;
  }

  void send_out(Parcel& parcel, const at::Tensor& tensor) {
    const c10::Stream stream = ways_of(parcel.device).out.stream();
    c10::Event saved(parcel.device.type());
    saved.record(current_stream_of(parcel.device));
    saved.block(stream);
    const c10::StreamGuard there(stream);
    at::Tensor host =
        at::empty_like(tensor.detach(), tensor.options().device(at::kCPU).pinned_memory(true));
    host.copy_(tensor.detach(), /*non_blocking=*/true);
    tensor.record_stream(stream);
    parcel.out.emplace(parcel.device.type()).record(stream);
    parcel.host = std::move(host);
    bytes_.offloaded += static_cast<int64_t>(parcel.host.nbytes());
    *on_host_ += static_cast<int64_t>(parcel.host.nbytes());
  }

  void send_back(Parcel& parcel) {
    tensor::CopyStream& way = ways_of(parcel.device).back;
    parcel.out->block(way.stream());
    parcel.on_way_back = way.begin({parcel.host});
    bytes_.returned += static_cast<int64_t>(parcel.host.nbytes());
  }

  // Backward goes through what was saved from its end; what this one has asked for already it
  // does not need again.
  void prefetch_before(const Parcel& parcel) {
    int ahead = 0;
    for (auto place = parcels_.lower_bound(parcel.number);
         place != parcels_.begin() && ahead < options_.prefetch;) {
      const auto earlier = (--place)->second.lock();
      if (!earlier || earlier->asked_in == parcel.asked_in || earlier->device != parcel.device)
        continue;
      ++ahead;
      if (!earlier->on_way_back) send_back(*earlier);
    }
  }

  OffloadOptions options_;
  mutable std::mutex mutex_;
  OffloadBytes bytes_;
  int64_t next_ = 0;
  std::map<int64_t, std::weak_ptr<Parcel>> parcels_;
  std::map<const c10::StorageImpl*, std::weak_ptr<Parcel>> of_storage_;  ///< the newest of each
  std::shared_ptr<std::atomic<int64_t>> on_host_ = std::make_shared<std::atomic<int64_t>>(0);
  std::map<c10::DeviceIndex, Ways> ways_;  ///< a process has one kind of accelerator
};

class ActivationOffload::Stayed : public tensor::SavedTensor {
 public:
  explicit Stayed(const at::Tensor& tensor) : tensor_(tensor) {}
  at::Tensor unpack() override { return tensor_.get(); }

 private:
  tensor::UnchangedTensor tensor_;
};

class ActivationOffload::Ticket : public tensor::SavedTensor {
 public:
  Ticket(std::shared_ptr<Depot> depot, std::shared_ptr<Parcel> parcel)
      : depot_(std::move(depot)), parcel_(std::move(parcel)) {}
  ~Ticket() override {
    const int64_t number = parcel_->number;
    const auto* const storage_address = parcel_->storage_address;
    parcel_.reset();
    depot_->forget(number, storage_address);
  }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  at::Tensor unpack() override { return depot_->bring(*parcel_); }

 private:
  std::shared_ptr<Depot> depot_;
  std::shared_ptr<Parcel> parcel_;
};

ActivationOffload::ActivationOffload(OffloadOptions options)
    : depot_(std::make_shared<Depot>(options)) {}

ActivationOffload::~ActivationOffload() = default;

std::unique_ptr<tensor::SavedTensor> ActivationOffload::pack(const at::Tensor& tensor) {
  if (depot_->is_small(tensor) || !can_move(tensor)) {
    depot_->stays(tensor);
    return std::make_unique<Stayed>(tensor);
  }
  return std::make_unique<Ticket>(depot_, depot_->parcel_of(tensor));
}

OffloadBytes ActivationOffload::bytes() const { return depot_->bytes(); }

}  // namespace muster::parallel
