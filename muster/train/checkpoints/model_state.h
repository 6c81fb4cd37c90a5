// A module's tensors and the generators' states, as lists that checkpoints hold.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "muster/distributed/process_group.h"
#include "muster/tensor/safetensors.h"
#include "muster/train/checkpoints/checkpoint.h"

namespace muster::train {

/// Parameters, then buffers, by name, each storage once; they share memory with the module.
tensor::NamedTensorList model_state(const torch::nn::Module& module);

/// Those of model_state(), in its order. Throws a usage error that names the tensor if one is
/// missing, of another shape or dtype, or unknown to the module.
std::vector<tensor::LoadedTensor> match_model_state(const torch::nn::Module& module,
                                                    const tensor::NamedTensorList& state);

/// Copies into the module. Throws as match_model_state(); nothing is changed then.
void load_model_state(torch::nn::Module& module, const tensor::NamedTensorList& state);

/// The buffers with an infinite element: masks of attention, say.
std::set<std::string> infinite_buffers(const torch::nn::Module& module);

/// The name of the first tensor with an element that is NaN or, unless it is among
/// `may_be_infinite`, infinite; or nothing.
std::optional<std::string> first_not_finite(const tensor::NamedTensorList& tensors,
                                            const std::set<std::string>& may_be_infinite = {});

/// The states of every rank's `generator`: "rank.0", … // [N] uint8 on the CPU; 5056 of them of a
/// CPU's generator. Collective.
tensor::NamedTensorList gather_rng_states(const distributed::ProcessGroup& group,
                                          const at::Generator& generator);

/// Sets `generator` to this rank's state in the checkpoint. A group of another size than wrote it,
/// or a generator of another kind of device (`fits` is false), gets new streams, which are functions
/// of `seed` and the step and differ from those already used.
void restore_generator(at::Generator& generator,
                       const Checkpoint& checkpoint,
                       const distributed::ProcessGroup& group,
                       int64_t seed,
                       bool fits = true);

}  // namespace muster::train
