// Messages between two ranks: what every backend makes of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "muster/base/error.h"

namespace muster::distributed {

// Note [Messages]
// One semantics over every backend of ours, so that a program does not depend on which it runs
// over:
//
//   buffered    A send takes a copy and waits for nobody: its tensor may be written as soon as the
//               call has returned. What has not left the sender is kept there; what came unasked
//               for, and stands before what was asked for, is kept by the receiver. There is no
//               bound: who sends without end to a rank that does not receive runs out of memory.
//               A tensor that is said to stay unchanged lies there itself between threads.
//   order       Messages of one rank to another under one tag are received in the order in which
//               they were sent, by receives in the order in which they were asked for. Tags do not
//               wait for each other, nor messages for collectives.
//   fit         A message goes into a tensor of its dtype and number of elements; the shape is the
//               receiver's. Else the receive fails with what both sides said, takes its message
//               with it, and the next receive gets the next message. The sender hears nothing of
//               it.
//   timeout     A receive that fails because its time is over takes nothing: its message, when it
//               comes, is the next receive's. The tensor may hold part of it. A send whose time is
//               over before it has left fails for who waits for its work, and stays: it arrives
//               when it is asked for. Neither ends anything but itself.
//   ends        A rank that ends in order gives first what it has sent, as long as its timeouts
//               allow and its receivers live, and what it has sent is received after it has ended.
//               Who waits for a message that it did not send is told at once; who sends to it, when
//               the backend sees that it has ended: what finds room in shared memory is left there.
//               Nobody else is told.
//
// A rendezvous, where a send waits for its receive, would need no memory of ours, and is what
// thread ranks and gloo did by themselves. But then two ranks that send to each other first wait
// for ever, the order of tags is part of a program, and a schedule of a pipeline must pair its
// sends with the receives of other ranks, which costs time. Shared memory has a buffer anyway, of a
// fixed size: what fits into it must not decide what a program means. So all buffer, at the price
// of a copy where nobody waits yet.
//
// Backends that are not ours (nccl) keep what they do: there a send waits for its receive, on the
// device, tags are not looked at, and the group's timeout holds.

/// From any rank.
inline constexpr int kAnyRank = -1;

/// One end of a message.
struct Message {
  at::Tensor tensor;
  int peer = 0;  ///< the other side; kAnyRank: whoever sends, of a receive
  int tag = 0;
  std::chrono::milliseconds timeout{0};  ///< 0: the group's
  /// A send throws what fails at once, instead of leaving it to its work; whoever asked for a receive
  /// waits for it at once.
  bool blocks = false;
  bool stays_unchanged = false;  ///< of a send: MessageOptions::stays_unchanged
};

/// A backend that does with messages as Note [Messages] says.
class Messenger {
 public:
  using MessageWork = c10::intrusive_ptr<c10d::Work>;
  virtual ~Messenger() = default;
  /// The work ends when the message has left this rank.
  virtual MessageWork send_message(const Message& message) = 0;
  virtual MessageWork receive_message(const Message& message) = 0;
  /// The first part of an end in order: waits until all that was sent has left this rank, as far as
  /// timeouts and peers allow. No collective can be called any more.
  virtual void end_in_order() {}
};

/// By the backend's own way, if it is a Messenger; else by c10d's, with the group's timeout.
c10::intrusive_ptr<c10d::Work> send_over(c10d::Backend& backend, const Message& message);
c10::intrusive_ptr<c10d::Work> receive_over(c10d::Backend& backend, const Message& message);
/// Nothing, if it is no Messenger.
void end_in_order(c10d::Backend& backend);

/// What stands in front of a message between processes, as bytes.
struct MessageHead {
  static constexpr int kMaxDims = 4;
  uint64_t bytes = 0;
  int32_t tag = 0;
  uint8_t dtype = 0;
  uint8_t dims = 0;
  int64_t sizes[kMaxDims] = {};
  int64_t elements = 0;

  static MessageHead of(const at::Tensor& tensor, int tag);
  bool fits(const at::Tensor& tensor) const;
  std::string describe() const;  ///< "float32[2, 3]"
};

/// Of a message that does not end well: "send float32[3] tag 7 from rank 0 to rank 1: why".
std::string send_failure(
    const std::string& what, int tag, int from, int to, const std::string& why);
/// "recv float32[3] tag 7 of rank 1 from rank 0: why".
std::string receive_failure(
    const at::Tensor& into, int tag, int to, int from, const std::string& why);
/// The usage error of a receive; `why`: "rank 0 sent float32[4] for float32[5]".
Error misfit(const std::string& failure);
std::string misfit_words(int from, const std::string& sent, const at::Tensor& into);
std::string late_words(std::chrono::milliseconds timeout);

/// The values of a tensor, dense and its own: for a message that outlives the call.
at::Tensor own_copy(const at::Tensor& tensor);
/// Dense, with its values in its memory; the same tensor where it is so already.
at::Tensor dense(const at::Tensor& tensor);

}  // namespace muster::distributed
