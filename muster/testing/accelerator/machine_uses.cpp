// The machine's watch over order: uses of memory, copies under way, races.
#include <algorithm>
#include <cstring>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/testing/accelerator/machine.h"

namespace muster::testing {
namespace {

constexpr size_t kMostRaces = 1000;

std::string stream_text(const FakeUse& use) {
  return concat("stream ", use.stream, " of fake:", use.device);
}

ByteSet bytes_of(const at::Tensor& tensor) {
  const auto start = reinterpret_cast<uintptr_t>(tensor.storage().data());
  const size_t element = tensor.element_size();
  return ByteSet(start + static_cast<size_t>(tensor.storage_offset()) * element,
                 element,
                 tensor.sizes(),
                 tensor.strides());
}

/// Where the tensor's storage begins, if it has memory of a device.
DeviceAddress place_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_privateuseone() || tensor.numel() == 0) return {};
  return find_shown(tensor.storage().data());
}

std::string hint_of(const FakeRace& race) {
  switch (race.kind) {
    case FakeRace::Kind::kUnordered:
      return concat("record an event behind ",
                    race.first.op,
                    " and let ",
                    stream_text(race.second),
                    " wait for it");
    case FakeRace::Kind::kFreed:
      return concat("record_stream() with ",
                    stream_text(race.first),
                    ", or wait for it before the tensor goes");
    case FakeRace::Kind::kHostWrite:
      return "wait for an event behind the copy first";
  }
  return "";
}

}  // namespace

std::string FakeRace::text() const {
  const std::string earlier = concat(first.op, " on ", stream_text(first));
  switch (kind) {
    case Kind::kUnordered:
      return concat(second.op,
                    " on ",
                    stream_text(second),
                    second.write ? " writes" : " reads",
                    " memory that ",
                    earlier,
                    first.write ? " writes" : " reads",
                    ", and nothing waits for that");
    case Kind::kFreed:
      return concat(earlier,
                    " may still use memory that was freed, and ",
                    stream_text(second),
                    " allocates: it could be handed out again");
    case Kind::kHostWrite:
      return concat("the host wrote pinned memory before ", earlier, " was done with it");
  }
  return "";
}

FakeUse Machine::described(const MemoryUse& use) const {
  const StreamName stream = order_.name_of(use.moment.stream);
  return {.op = *use.op, .device = stream.device, .stream = stream.id, .write = use.write};
}

const std::string* Machine::interned(std::string_view op) {
  const auto known = names_.find(op);
  return known != names_.end() ? &*known : &*names_.emplace(op).first;
}

void Machine::found(FakeRace race) {
  if (races_ == Races::kThrow) {
    throw usage_error({.refused = "fake devices",
                       .rule = "streams that use the same memory wait for each other",
                       .value = race.text(),
                       .hint = hint_of(race)});
  }
  if (races_ == Races::kCollect && found_.size() < kMostRaces) found_.push_back(std::move(race));
}

std::vector<FakeRace> Machine::take_races() {
  const std::lock_guard lock(mutex_);
  return std::exchange(found_, {});
}

Machine::Queued Machine::queue(std::string_view op,
                               c10::DeviceIndex device,
                               const std::vector<TensorUse>& uses) {
  const c10::Stream stream = current_stream(device);
  const std::lock_guard lock(mutex_);
  const Queued queued{order_.queue(number_of(stream)), interned(op)};
  std::vector<std::pair<MemoryBlock*, MemoryUse>> all;
  for (const auto& [tensor, write] : uses) {
    const DeviceAddress place = place_of(tensor);
    if (place.device < 0) continue;
    MemoryBlock* const block =
        devices_[static_cast<size_t>(place.device)]->memory.block_at(place.offset);
    if (block == nullptr) continue;
    MemoryUse use{bytes_of(tensor), write, queued.moment, queued.op};
    if (const MemoryUse* const first = block->uses.race_of(use, order_))
      found({FakeRace::Kind::kUnordered, described(*first), described(use)});
    all.emplace_back(block, std::move(use));
  }
  for (auto& [block, use] : all) block->uses.add(std::move(use), order_);
  return queued;
}

void Machine::made(const Queued& queued, const at::Tensor& result) {
  const DeviceAddress place = place_of(result);
  if (place.device < 0) return;
  const std::lock_guard lock(mutex_);
  MemoryBlock* const block =
      devices_[static_cast<size_t>(place.device)]->memory.block_at(place.offset);
  if (block != nullptr) block->uses.add({bytes_of(result), true, queued.moment, queued.op}, order_);
}

void Machine::land(const std::function<bool(const CopyUnderWay& copy)>& is_done) {
  const auto first_done = std::stable_partition(
      copies_.begin(), copies_.end(), [&](const CopyUnderWay& copy) { return !is_done(copy); });
  const std::vector<CopyUnderWay> done(std::make_move_iterator(first_done),
                                       std::make_move_iterator(copies_.end()));
  copies_.erase(first_done, copies_.end());
  std::vector<const CopyUnderWay*> disturbed;
  for (const CopyUnderWay& copy : done) {
    void* const pinned = copy.pinned.mutable_data_ptr();
    if (std::memcmp(pinned, copy.shown.const_data_ptr(), copy.shown.nbytes()) != 0)
      disturbed.push_back(&copy);
    if (copy.to_host) std::memcpy(pinned, copy.arriving.const_data_ptr(), copy.arriving.nbytes());
  }
  for (const CopyUnderWay* const copy : disturbed) {
    found({FakeRace::Kind::kHostWrite,
           described({{}, copy->to_host, copy->moment, interned("aten::copy_")}),
           {}});
  }
}

void Machine::host_waits(const VectorClock& mark) {
  const std::lock_guard lock(mutex_);
  order_.host_waits(mark);
  land([&](const CopyUnderWay& copy) { return order_.host_knows(copy.moment); });
}

void Machine::host_waits_for_device(c10::DeviceIndex device) {
  check(device);
  VectorClock all;
  {
    const std::lock_guard lock(mutex_);
    for (size_t stream = 0; stream < order_.streams(); ++stream)
      if (order_.name_of(stream).device == device) all.join(order_.mark(stream));
  }
  host_waits(all);
  const std::lock_guard lock(mutex_);
  devices_[static_cast<size_t>(device)]->memory.settle();
}

void Machine::host_waits(const Queued& queued) {
  VectorClock mark;
  {
    const std::lock_guard lock(mutex_);
    mark = order_.mark(queued.moment.stream);
  }
  host_waits(mark);
}

void Machine::settle(const Queued& queued, const at::Tensor& pinned, bool to_host) {
  const ByteSet bytes = bytes_of(pinned);
  const std::lock_guard lock(mutex_);
  for (const CopyUnderWay& copy : copies_) {
    const MemoryUse first{bytes_of(copy.pinned), copy.to_host, copy.moment, queued.op};
    if (!bytes.overlaps(first.bytes) || !(to_host || copy.to_host)) continue;
    if (order_.stream_knows(queued.moment.stream, copy.moment)) continue;
    found({FakeRace::Kind::kUnordered,
           described(first),
           described({bytes, to_host, queued.moment, queued.op})});
  }
  land([&](const CopyUnderWay& copy) {
    return (to_host || copy.to_host) && bytes.overlaps(bytes_of(copy.pinned));
  });
}

void Machine::under_way(CopyUnderWay copy) {
  const std::lock_guard lock(mutex_);
  copies_.push_back(std::move(copy));
}

}  // namespace muster::testing
