// Activations that wait for backward in host memory, not on their device.
#pragma once

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

#include "muster/tensor/saved_tensors.h"

namespace muster::parallel {

// Note [Activation offload]
// As torch.autograd.graph.save_on_cpu(pin_memory=True): what an operation saves is copied to pinned
// host memory and copied back when backward asks for it. Here both ways have a stream beside the
// one that computes, so that neither the host nor the operations wait:
//   - The way out waits for what is queued (the operation's inputs are there by then, and in-place
//     operations that come later wait for nothing of ours, so a tensor that is changed in place while
//     it is copied is refused when it is asked for). Its memory is recorded as in use there.
//   - The way back waits for the end of the way out, and the stream that computes for the way back.
//     While backward is at one tensor, those saved before it are on their way.
// Memory that is saved by several operations, a ReLU's output that is the next layer's input, goes
// out once. What would not get smaller stays where it is: parameters and views of them, expanded
// tensors, what is on the host anyhow, vectors, and small tensors, which cost more than they give.

struct OffloadOptions {
  int64_t min_bytes = int64_t{1} << 20;  ///< smaller tensors stay on their device
  int prefetch = 2;                      ///< tensors on their way back while backward is at one
};

/// What has happened so far, in bytes.
struct OffloadBytes {
  int64_t stayed = 0;     ///< saved where they were
  int64_t offloaded = 0;  ///< copied to the host
  int64_t shared = 0;     ///< saved again while they were there already
  int64_t returned = 0;   ///< copied back
  int64_t on_host = 0;    ///< there now
};

/// The hooks of a tensor::SavedTensorScope around a forward:
///
///   parallel::ActivationOffload offload;
///   { const tensor::SavedTensorScope scope(offload); loss = net(batch); }
///   loss.backward();
///
/// Around checkpointed() it takes the functions' inputs. It may go before its graphs do. One thread
/// has it in a scope at a time; backward may run in any.
class ActivationOffload : public tensor::SavedTensorHooks {
 public:
  explicit ActivationOffload(OffloadOptions options = {});
  ~ActivationOffload() override;
  ActivationOffload(const ActivationOffload&) = delete;
  ActivationOffload& operator=(const ActivationOffload&) = delete;

  std::unique_ptr<tensor::SavedTensor> pack(const at::Tensor& tensor) override;

  OffloadBytes bytes() const;

 private:
  class Depot;
  class Stayed;
  class Ticket;
  struct Parcel;
  std::shared_ptr<Depot> depot_;
};

}  // namespace muster::parallel
