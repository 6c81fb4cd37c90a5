// Lists of tensors as messages between the ranks of a group.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "muster/distributed/process_group.h"
#include "muster/parallel/pipeline/stage.h"

namespace muster::parallel {

// Note [Letters]
// What one rank of a pipeline hands to another is a list of tensors whose number, shapes and dtypes
// the other does not know. So a letter is a head of fixed size, which says all that, and a message
// for each tensor behind it. All letters of a step are written, in any case: a rank that fails
// writes that it has given up, in place of what it cannot make any more, so that whoever waits for
// it goes on at once, and no letter of one step is ever taken for another's. The head has the number
// of its step, and of its pipeline, for whoever comes back from a step that he had to leave. A letter
// that does not come in time comes later, and is dropped by its number then.

/// One thread. Letters are read from a rank in the order in which it wrote them under their tag.
class TensorPost {
 public:
  /// Tags from here on are the post's.
  static constexpr int kFirstTag = 1 << 28;

  /// `timeout` of a message; 0: the group's.
  TensorPost(distributed::ProcessGroup group, std::chrono::milliseconds timeout);

  /// Letters with another number are not read any more: those of a pipeline that was made over the
  /// same group before. The same on all ranks.
  void begin_series(int64_t number) { series_ = number; }
  /// Nor are letters of other steps.
  void begin(int64_t step) {
    step_ = step;
    is_late_ = false;
  }

  /// Waits for nobody.
  void send(int to, int tag, const Handed& handed) { send(to, tag, handed, false); }
  /// The same of tensors to which nobody writes until they have been received: they may lie there
  /// themselves, without a copy.
  void lend(int to, int tag, const Handed& handed) { send(to, tag, handed, true); }
  void send_given_up(int to, int tag);
  /// Gives tensors that go from where they are, and not by the host's memory, the order of elements in
  /// which they go, so that no copy is made when they are lent. Whether there are any.
  bool make_ready(Handed& handed) const;

  /// Waits for a letter. False: the other has given up. Throws an environment error for one that
  /// has ended or does not come in time.
  bool await(int from, int tag);
  /// The letter that await() has found, on `device`.
  Handed receive(int from, int tag, c10::Device device);
  /// Takes a letter and drops it. Throws as await().
  void discard(int from, int tag);
  /// Drops what receive() has left of a letter when it threw.
  void discard_found();
  /// Whether a message of this step has not come, in time or at all. Whoever does not come once would
  /// be waited for again and again; what he sends is dropped by its number later.
  bool is_late() const { return is_late_; }
  /// False once a letter has been left in its middle: what comes behind it cannot be told apart.
  bool is_whole() const { return is_whole_; }

 private:
  struct Head {
    bool is_ours = true;  // and not of a pipeline that the group had before
    int64_t step = 0;
    bool given_up = false;
    std::vector<int64_t> words;  // of the tensors
    size_t next = 0;             // word: of what has not been read yet
  };
  /// What `read` throws leaves a letter in its middle.
  template <class Read>
  auto within_letter(Read&& read) {
    try {
      return read();
    } catch (...) {
      is_whole_ = false;
      throw;
    }
  }
  void take(const at::Tensor& tensor, int from, int tag);
  void send(int to, int tag, const Handed& handed, bool stays_unchanged);
  void send_head(int to, int tag, Head head);
  Head receive_head(int from, int tag);
  Handed read(Head& head, int from, int tag, c10::Device device);
  bool moves(c10::DeviceType type) const;
  distributed::MessageOptions options_for(int tag) const { return {kFirstTag + tag, timeout_}; }

  distributed::ProcessGroup group_;
  std::chrono::milliseconds timeout_;
  c10::Device head_device_;
  int64_t series_ = 0, step_ = 0;
  std::map<std::pair<int, int>, Head> found_;  // by rank and tag
  bool is_whole_ = true;
  bool is_late_ = false;
};

}  // namespace muster::parallel
