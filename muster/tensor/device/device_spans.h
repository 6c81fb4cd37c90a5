// When a device worked on what was queued.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

namespace muster::tensor {

/// Stretches of work on a device's streams, by the device's own events: nobody waits while they are
/// marked. One thread.
class DeviceSpans {
 public:
  struct Span {
    std::string row;  ///< what kind of work, and on which stream: "copies, stream 3 of cuda:0"
    std::string name;
    int64_t begin_ns = 0, end_ns = 0;  ///< by `now_ns`
  };

  /// For an accelerator of this process. `now_ns`: the host's clock, on which the spans are put.
  DeviceSpans(c10::Device device, std::function<int64_t()> now_ns);

  /// Work that is queued on `stream` from here to end(), as the row `kind` shows it.
  size_t begin(const std::string& kind, std::string name, const c10::Stream& stream);
  /// The same on the calling thread's current stream.
  size_t begin(const std::string& kind, std::string name);
  void end(size_t span);

  /// Forgets all so far, and reads the clocks anew.
  void restart();

  /// In the order of begin(); those that were not ended are left out. Waits for the device. Nothing is
  /// marked any more, until restart().
  std::vector<Span> collect();

 private:
  struct Marked {
    std::string row, name;
    c10::Stream stream;
    c10::Event begin;
    std::optional<c10::Event> end;
  };

  c10::Event mark(const c10::Stream& stream) const;

  c10::Device device_;
  std::function<int64_t()> now_ns_;
  std::optional<c10::Event> zero_;
  int64_t zero_ns_ = 0;
  std::vector<Marked> marked_;
  bool is_finished_ = false;
};

}  // namespace muster::tensor
