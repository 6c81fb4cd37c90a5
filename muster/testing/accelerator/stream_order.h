// Which operation of which stream is known to be done before which other one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace muster::testing {

// Note [Races]
// Each stream counts its operations. A clock says, for each stream, up to which operation all is
// known to be done. A stream knows of its own operations, of what it waited for by an event, and of
// what the host had waited for when an operation was queued; waiting joins clocks. Two uses of the
// same bytes, one of them a write, are a race if the second one's stream does not know of the
// first. Each block of memory keeps its uses (MemoryUses), and forgets those that everybody knows
// of or that a later one stands for.
//
// What the host knows is one clock for all threads: they tell each other things in ways that nobody
// sees here. So a race that depends on which thread came first may be missed; none is made up.
// Source: Mattern 1989, "Virtual time and global states of distributed systems".

/// An operation: the time-th of its stream.
struct Moment {
  size_t stream = 0;
  uint64_t time = 0;
};

class VectorClock {
 public:
  uint64_t at(size_t stream) const { return stream < times_.size() ? times_[stream] : 0; }
  bool knows(Moment moment) const { return at(moment.stream) >= moment.time; }
  void join(const VectorClock& other);
  uint64_t advance(size_t stream);

 private:
  std::vector<uint64_t> times_;  // of streams beyond its end: 0
};

struct StreamName {
  int device = 0;
  int64_t id = 0;
  auto operator<=>(const StreamName&) const = default;
};

/// Streams by a number each, in the order in which they were first heard of. One thread at a time.
class StreamOrder {
 public:
  size_t number_of(StreamName name);
  StreamName name_of(size_t stream) const { return names_.at(stream); }
  size_t streams() const { return names_.size(); }

  /// The next operation of the stream, queued by the host.
  Moment queue(size_t stream);
  /// All that is done once the stream's operations so far are: what an event holds.
  VectorClock mark(size_t stream);
  void stream_waits(size_t stream, const VectorClock& mark) { clocks_.at(stream).join(mark); }
  void host_waits(const VectorClock& mark) { host_.join(mark); }

  bool stream_knows(size_t stream, Moment moment) const {
    return clocks_.at(stream).knows(moment) || host_.knows(moment);
  }
  bool host_knows(Moment moment) const { return host_.knows(moment); }

 private:
  std::vector<StreamName> names_;
  std::map<StreamName, size_t> numbers_;
  std::vector<VectorClock> clocks_;
  VectorClock host_;
};

}  // namespace muster::testing
