// What autograd keeps from forward to backward, in the keeping of somebody else.
#pragma once

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

namespace muster::tensor {

// Note [Saved tensors]
// Operations keep tensors for their backward. Python's torch.autograd.graph.saved_tensors_hooks
// says what is kept instead: nothing, and it is computed again (activation checkpointing), a copy
// in another place (offload), or the same, counted. In C++ LibTorch asks its default engine for
// such hooks, and the engine that it comes with has none. So a scope, the first time, puts an
// engine in front of the one that is there, which answers this one question and hands on all else,
// backward above all: its threads, its queues and what it has begun stay where they were. It is
// never taken away. Behind it may be anybody's engine, Python's for instance, whose own hooks hold
// outside of our scopes. Whoever sets an engine after us is found by the next scope, which goes in
// front of it; scopes that are open then get nothing more to see.
//
// Scopes are the thread's and nest; the innermost one gets a tensor, alone. Threads that work for
// this one (at::parallel_for, a device's backward) are outside. Without a scope an operation pays a
// few instructions per tensor that it keeps: a call and a look at a thread-local pointer.

/// One tensor that autograd saved. Called and destroyed in any thread; it goes when its graph does.
class SavedTensor {
 public:
  virtual ~SavedTensor() = default;
  /// The same numbers, shape and dtype on the same device. Called once per backward through the
  /// graph; in the thread that runs that part of it.
  virtual at::Tensor unpack() = 0;
};

/// Takes what is saved inside a SavedTensorScope.
class SavedTensorHooks {
 public:
  virtual ~SavedTensorHooks() = default;
  /// In the scope's thread, gradients off, in the middle of an operation: no change to `tensor`.
  /// What is kept of it is its detach(): the tensor itself would hold the graph that holds it.
  virtual std::unique_ptr<SavedTensor> pack(const at::Tensor& tensor) = 0;
};

/// What autograd saves in this thread while it lives is the hooks', which outlive it. Scopes end in
/// the reverse order of their beginning.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorHooks& hooks);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

 private:
  SavedTensorHooks* outer_;
};

/// A tensor without its graph, which has to be what it was when it is asked for again: LibTorch
/// itself does not look where hooks have kept it.
class UnchangedTensor {
 public:
  UnchangedTensor() = default;
  explicit UnchangedTensor(const at::Tensor& tensor);

  /// Throws a usage error where it was changed in place since.
  const at::Tensor& get() const;
  bool defined() const { return tensor_.defined(); }

 private:
  at::Tensor tensor_;
  int64_t version_ = 0;
};

/// Whether it is a parameter or a view of one: memory that stays, whoever saves it.
bool is_of_parameter(const at::Tensor& tensor);

}  // namespace muster::tensor
