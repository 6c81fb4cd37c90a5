// A module without its elements.
#pragma once

namespace torch::nn {
class Module;
}

namespace muster::memory {

// Note [A module on meta]
// Module::to(at::kMeta) throws in C++: `set_data` does not take a tensor of another kind of device, and
// layers hold handles of their own to what is registered. So each tensor is changed where it is: it gets
// a storage of the meta device, of the same size, and the dispatch keys of that device. Storages that
// tensors share are shared afterwards.

/// Parameters and buffers lose their elements, for good, and lie on the meta device; gradients are
/// dropped. Tensors that are there already stay. Those that the module has not registered stay as they
/// are. To be called before anything refers to the parameters' place: an optimizer, a graph. Throws a
/// usage error for a parameter that is sparse.
void move_to_meta(torch::nn::Module& module);

}  // namespace muster::memory
