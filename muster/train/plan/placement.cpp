#include "muster/train/plan/placement.h"

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::train {
namespace {

using tensor::DeviceKind;
using tensor::DeviceName;

constexpr int64_t kMostDevices = 1024;  // ranks that are threads of this process

/// What the ranks of this process make of a kind's devices.
class Dealer {
 public:
  Dealer(const PlacementRequest& request, const DeviceKind& kind, DeviceName name)
      : request_(request),
        kind_(kind),
        name_(std::move(name)),
        said_(parse_devices(request.devices)),
        there_are_(tensor::device_count(kind.type)) {}

  /// Ranks of this machine that need a device of their own.
  int64_t wanted() const {
    return request_.threads > 0 ? request_.threads : request_.local_world_size;
  }
  bool are_enough() const { return wanted() <= there_are_; }
  int64_t there_are() const { return there_are_; }

  void deal(Placement& placed) const {
    if (!said_.indices.empty() && name_.index) {
      throw usage_error({.refused = concat("--devices ", request_.devices),
                         .rule = "the devices are named once",
                         .value = concat("--device ", request_.device),
                         .hint = concat("take --device ", kind_.name)});
    }
    std::vector<int64_t> all = said_.indices;
    if (all.empty() && name_.index) all.assign(static_cast<size_t>(wanted()), *name_.index);
    const bool by_number = all.empty();
    for (int64_t i = 0; by_number && i < wanted(); ++i) all.push_back(i);
    if (static_cast<int64_t>(all.size()) != wanted()) {
      throw usage_error({.refused = concat("--devices ", request_.devices),
                         .rule = concat("one device for each of the ", wanted(), " ranks here"),
                         .value = concat(all.size(), " devices")});
    }
    if (by_number && !are_enough()) refuse_too_few();
    placed.on_machine.clear();
    for (const int64_t index : all) {
      if (index >= there_are_) refuse(index);
      placed.on_machine.emplace_back(kind_.type, static_cast<c10::DeviceIndex>(index));
    }
    placed.devices = placed.on_machine;
    if (request_.threads == 0)
      placed.devices = {placed.on_machine.at(static_cast<size_t>(request_.local_rank))};
    if (std::string line = sharing(); !line.empty()) placed.remarks.push_back(line);
  }

 private:
  static constexpr const char* kSharing = ": they take turns, and its memory is for all of them";

  /// Ranks of this machine that compute on one device; nothing if none do.
  std::string sharing() const {
    std::vector<int64_t> all = said_.indices;
    if (name_.index && wanted() > 1)
      return concat(wanted(), " ranks of this machine share ", request_.device, kSharing);
    std::sort(all.begin(), all.end());
    const auto twice = std::adjacent_find(all.begin(), all.end());
    if (twice == all.end()) return "";
    const auto ranks = std::count(all.begin(), all.end(), *twice);
    return concat(ranks, " ranks of this machine share ", kind_.name, ':', *twice, kSharing);
  }

  [[noreturn]] void refuse(int64_t index) const {
    throw usage_error(
        {.refused = concat("device ", kind_.name, ':', index),
         .rule =
             there_are_ == 1
                 ? concat("there is one here, ", kind_.name, ":0")
                 : concat("there are ", kind_.name, ":0 to ", kind_.name, ':', there_are_ - 1)});
  }
  [[noreturn]] void refuse_too_few() const {
    throw usage_error(
        {.refused = concat("--device ", kind_.name),
         .rule = "each rank of a machine has a device of its own",
         .value =
             concat(wanted(), " ranks, ", there_are_, there_are_ == 1 ? " device" : " devices"),
         .hint = concat("start fewer ranks, or let them share one: --device ", kind_.name, ":0")});
  }

  const PlacementRequest& request_;
  const DeviceKind& kind_;
  DeviceName name_;
  DevicesSaid said_;
  int64_t there_are_;
};

/// The CPU's devices have no numbers.
std::vector<c10::Device> on_cpu(const PlacementRequest& request) {
  if (!parse_devices(request.devices).indices.empty()) {
    throw usage_error({.refused = concat("--devices ", request.devices),
                       .rule = "numbers are those of devices, and the ranks are on the CPU",
                       .hint = "say how many ranks, --devices 2, or name a kind of device"});
  }
  return std::vector<c10::Device>(static_cast<size_t>(std::max<int64_t>(1, request.threads)),
                                  c10::kCPU);
}

Placement place_automatically(const PlacementRequest& request) {
  Placement placed{.why = "auto"};
  for (const DeviceKind& kind : request.kinds) {
    if (!kind.is_automatic) continue;
    std::string why = kind.open();
    if (why.empty()) {
      const Dealer dealer(request, kind, {.kind = std::string(kind.name), .index = {}});
      const bool names_some = !parse_devices(request.devices).indices.empty();
      if (names_some || dealer.are_enough()) {
        dealer.deal(placed);
        return placed;
      }
      why = concat(dealer.wanted(), " ranks, and ", dealer.there_are(), " of them");
      placed.remarks.push_back(
          concat("the ranks compute on the CPU: not on ", kind.name, ", ", why));
    }
    placed.why += concat("; not ", kind.name, ": ", why);
  }
  placed.devices = on_cpu(request);
  return placed;
}

}  // namespace

DevicesSaid parse_devices(const std::string& text) {
  if (text.empty()) return {};
  const auto refusal = [&](const std::string& rule) {
    return usage_error({.refused = "--devices", .rule = rule, .value = text});
  };
  std::vector<int64_t> numbers;
  for (const std::string& part : split(text, ',')) {
    const auto number = to_int(part);
    if (!number) throw refusal("how many, as in 2, or which, as in 0,1");
    numbers.push_back(*number);
  }
  const bool is_list = text.find(',') != std::string::npos;
  const int64_t count = is_list ? static_cast<int64_t>(numbers.size()) : numbers[0];
  if (count < 1) throw refusal("at least 1");
  if (count > kMostDevices) throw refusal(concat("at most ", kMostDevices));
  if (!is_list) return {.count = count, .indices = {}};
  for (const int64_t number : numbers) {
    if (number < 0 || number > INT8_MAX) throw refusal("devices are numbered from 0");
  }
  return {.count = count, .indices = std::move(numbers)};
}

Placement place(const PlacementRequest& request) {
  const DeviceName name = tensor::parse_device(request.device, request.kinds, "--device");
  if (name.kind == "auto") return place_automatically(request);
  Placement placed;
  if (name.kind == "cpu") {
    placed.devices = on_cpu(request);
    return placed;
  }
  const auto kind = std::find_if(request.kinds.begin(),
                                 request.kinds.end(),
                                 [&](const DeviceKind& own) { return own.name == name.kind; });
  if (const std::string why = kind->open(); !why.empty()) {
    throw environment_error({.refused = concat("--device ", request.device),
                             .rule = why,
                             .hint = "take --device cpu, or leave the flag away"});
  }
  const Dealer dealer(request, *kind, name);
  dealer.deal(placed);
  return placed;
}

std::string names_of(const std::vector<c10::Device>& devices) {
  std::vector<std::string> names;
  for (const c10::Device device : devices) {
    std::string name = device.str();
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return join(names, ", ");
}

}  // namespace muster::train
