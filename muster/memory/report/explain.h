// Says why memory ran out: who held it, which class of cause it is, and what to do.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "muster/diagnose/devices/machine_status.h"
#include "muster/memory/report/report.h"
#include "muster/memory/report/watch.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace muster::memory {

/// A tensor of a model or its optimizer.
struct OwnedTensor {
  at::Tensor tensor;
  Owner owner = Owner::kOther;
  std::string layer;  ///< "encoder.0" of its parameter "encoder.0.weight"; "" for others
};

/// Where such a tensor lay that is freed between the failure and explain(), as gradients are of a step
/// that is given up.
struct OwnedMemory {
  c10::Device device = c10::kCPU;
  uint64_t address = 0;
  int64_t bytes = 0;
  Owner owner = Owner::kOther;
  std::string layer;
};

/// While it is there; nothing for one without memory, as a weight in shards is between its uses.
std::optional<OwnedMemory> memory_of(const OwnedTensor& one);

struct ExplainOptions {
  /// owned_tensors() and others that the program knows; they still live where the error is caught.
  std::vector<OwnedTensor> owned = {};
  int rank = -1;         ///< for the text; -1: no rank
  size_t processes = 5;  ///< of others, so many are named; 0: nobody is asked
  diagnose::MachineReaderOptions machine = {};  ///< where other processes are read
  /// What lived at the failure and is freed since; `owned` goes before it.
  std::vector<OwnedMemory> freed = {};
};

/// Parameters, buffers and gradients of the module, and the state of torch::optim's optimizers.
std::vector<OwnedTensor> owned_tensors(const torch::nn::Module& module,
                                       const torch::optim::Optimizer* optimizer = nullptr);

///     memory::OomWatch watch;
///     try { step(); } catch (const std::exception&) {
///       std::cerr << memory::explain(std::current_exception(), device,
///                                    {.owned = memory::owned_tensors(*net, &optimizer)}).text();
///       throw;
///     }
///
/// `device`: whose memory it is. What was noted at the failure (OomWatch) goes before what the
/// error's text says, and that before what is found now. Where operators were recorded
/// (Level::kTags, kLayers) holders have names; what the owned tensors hold is known without. Takes
/// a look at each noted block, and as long as the driver does (five seconds at most) for others.
/// An error of another kind, or null, gets what is known of the device, and OomClass::kUnknown.
OomReport explain(const std::exception_ptr& error,
                  c10::Device device,
                  const ExplainOptions& options = {});

}  // namespace muster::memory
