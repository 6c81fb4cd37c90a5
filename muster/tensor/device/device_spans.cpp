#include "muster/tensor/device/device_spans.h"

#include <utility>

#include <c10/core/impl/VirtualGuardImpl.h>

#include "muster/base/text.h"

namespace muster::tensor {

DeviceSpans::DeviceSpans(c10::Device device, std::function<int64_t()> now_ns)
    : device_(device), now_ns_(std::move(now_ns)) {
  restart();
}

/// The default event of c10 knows no time.
c10::Event DeviceSpans::mark(const c10::Stream& stream) const {
  c10::Event event(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
  event.record(stream);
  return event;
}

void DeviceSpans::restart() {
  marked_.clear();
  is_finished_ = false;
  zero_.emplace(mark(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_)));
  zero_->synchronize();
  zero_ns_ = now_ns_();
}

size_t DeviceSpans::begin(const std::string& kind, std::string name, const c10::Stream& stream) {
  if (is_finished_) return SIZE_MAX;
  marked_.push_back({.row = concat(kind, ", stream ", stream.id(), " of ", device_.str()),
                     .name = std::move(name),
                     .stream = stream,
                     .begin = mark(stream),
                     .end = {}});
  return marked_.size() - 1;
}

size_t DeviceSpans::begin(const std::string& kind, std::string name) {
  return begin(
      kind, std::move(name), c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
}

void DeviceSpans::end(size_t span) {
  if (span < marked_.size()) marked_[span].end.emplace(mark(marked_[span].stream));
}

std::vector<DeviceSpans::Span> DeviceSpans::collect() {
  std::vector<Span> spans;
  const auto time_of = [this](const c10::Event& event) {
    event.synchronize();
    return zero_ns_ + static_cast<int64_t>(zero_->elapsedTime(event) * 1e6);
  };
  for (Marked& marked : marked_) {
    if (!marked.end) continue;
    spans.push_back({.row = std::move(marked.row),
                     .name = std::move(marked.name),
                     .begin_ns = time_of(marked.begin),
                     .end_ns = time_of(*marked.end)});
  }
  marked_.clear();
  is_finished_ = true;
  return spans;
}

}  // namespace muster::tensor
