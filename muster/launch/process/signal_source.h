// Signals to the launcher as events. Private to the room.
#pragma once

#include <signal.h>

#include "muster/base/file.h"

namespace muster::launch {

/// Takes INT, HUP, QUIT and TERM for as long as it lives, except those that were ignored before
/// (nohup, a background job). They are blocked on the calling thread only: a program with more
/// threads blocks them there before. The destructor drops what has not been read and restores the
/// mask.
class SignalSource {
 public:
  /// With `take` false nothing is taken, and `fd` is -1.
  explicit SignalSource(bool take);
  ~SignalSource();
  SignalSource(const SignalSource&) = delete;
  SignalSource& operator=(const SignalSource&) = delete;

  int fd() const { return fd_.get(); }

  /// The next signal, or 0. Never blocks.
  int next();

  /// The mask from before, which ranks start with.
  const sigset_t& mask_before() const { return before_; }

 private:
  sigset_t before_;
  UniqueFd fd_;
};

}  // namespace muster::launch
