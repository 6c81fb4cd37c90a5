// The way of tensors from one rank of a pipeline to another.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "muster/parallel/pipeline/stage.h"
#include "muster/pipeline/action/action.h"
#include "muster/tensor/device/streams.h"

namespace muster::parallel {

/// Sends are buffered (pipeline::Sends::kBuffered): they wait for nobody.
class Carrier {
 public:
  virtual ~Carrier() = default;
  /// Gives it the form in which it goes. Whether it lies there, in this very memory, until it is taken.
  virtual bool make_ready(Handed& /*handed*/) const { return true; }
  /// `action` is SEND_F or SEND_B.
  virtual void send(const pipeline::Action& action, Handed handed) = 0;
  /// Before each action: throws where the step has been given up.
  virtual void check() {}
  /// RECV_F or RECV_B: waits until the partner has sent.
  virtual void await(const pipeline::Action& action) = 0;
  /// What it sent, on `device`. Waits for it, too.
  virtual Handed receive(const pipeline::Action& action, c10::Device device) = 0;
};

/// Between threads of one process: what is sent lies there until it is taken, and the taker copies
/// it to its device, on streams that wait for the sender's (no host thread waits for a device). On
/// one device nothing is copied.
class ThreadCarrier : public Carrier {
 public:
  void send(const pipeline::Action& action, Handed handed) override;
  /// These throw an environment error once close() was called, as check() does.
  void await(const pipeline::Action& action) override;
  Handed receive(const pipeline::Action& action, c10::Device device) override;

  void check() override;

  /// Ends all waits, now and later.
  void close(const std::string& why);

 private:
  using Key = std::tuple<pipeline::ActionKind, int64_t, int64_t>;
  struct Sent {
    Handed handed;
    tensor::StreamMark ready;
  };
  static Key key_of(const pipeline::Action& send) {
    return {send.kind, send.stage, send.micro_batch};
  }

  // Both under the lock.
  void require_open() const;
  void await_sent(const Key& key, std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<Key, Sent> sent_;
  std::string closed_;  // why
};

/// `handed` on `device`: the calling thread's streams do all of it, in order.
Handed on_device(Handed handed, c10::Device device);

}  // namespace muster::parallel
