#include "muster/diagnose/devices/machine_status.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>

#include <unistd.h>

#include "muster/base/text.h"
#include "muster/diagnose/devices/device_reader.h"
#include "muster/diagnose/devices/nvml.h"

namespace muster::diagnose {
namespace {

constexpr unsigned kMostDevices = 1024;
constexpr int kReadsOfFault = 10;  // with a device that is lost, before the driver is asked anew

/// "GPU-3f…" and "3f…" are one; so are "00000000:3B:00.0" and "0000:3b:00.0".
std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name) plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (plain.starts_with("gpu-")) return plain.substr(4);
  if (plain.find(':') != std::string::npos)
    plain.erase(0, std::min(plain.find_first_not_of('0'), plain.size()));
  return plain;
}

/// What the process says of its allocator on this device, or on its part of it.
std::optional<PublishedDevice> allocator_on(const PublishedState& state,
                                            const DeviceStatus& device,
                                            const DeviceProcess& process) {
  const auto is_it = [&](const PublishedDevice& one) {
    const std::string name = plain_name(one.device);
    if (name.empty()) return false;
    for (const MigInstance& instance : device.instances) {
      if (instance.gpu_instance == process.gpu_instance &&
          instance.compute_instance == process.compute_instance &&
          name == plain_name(instance.uuid))
        return true;
    }
    return name == plain_name(device.uuid) || name == plain_name(device.bus_id);
  };
  const auto found = std::ranges::find_if(state.devices, is_it);
  return found == state.devices.end() ? std::nullopt : std::optional(*found);
}

const PublishedState* state_of(const PublishedFiles& files, int64_t pid) {
  const auto found = std::ranges::find_if(
      files.states, [&](const PublishedState& state) { return state.process.pid == pid; });
  return found == files.states.end() ? nullptr : &*found;
}

}  // namespace

ReadProgress::ReadProgress() : calls_(std::make_unique<NvmlProgress>()) {}
ReadProgress::~ReadProgress() = default;

std::string ReadProgress::waits_for() const {
  const char* call = calls_->call.load(std::memory_order_relaxed);
  const int64_t device = calls_->device.load(std::memory_order_relaxed);
  if (call == nullptr) return "";
  return device < 0 ? std::string(call) : concat(call, " of device ", device);
}

MachineReader::MachineReader(MachineReaderOptions options)
    : options_(std::move(options)), progress_(std::make_shared<ReadProgress>()) {
  if (options_.nvml.empty())
    options_.nvml = options_.surroundings.variable(kNvmlVariable).value_or("");
  if (options_.nvml.empty()) options_.nvml = kNvmlName;
}

MachineReader::~MachineReader() { end_driver(); }

void MachineReader::end_driver() {
  if (nvml_ && is_started_)
    nvml_->call(*progress_->calls_, "nvmlShutdown", nvml_->functions().shutdown);
  is_started_ = false;
  known_.clear();  // after a new start the indices may be those of other devices
}

bool MachineReader::start_driver(DriverStatus& driver) {
  if (!nvml_) {
    std::string why;
    bool is_absent = false;
    progress_->calls_->call.store("the loading of NVML", std::memory_order_relaxed);
    nvml_ = Nvml::open(options_.nvml, why, is_absent);
    progress_->calls_->call.store(nullptr, std::memory_order_relaxed);
    if (!nvml_) {
      driver = driver_not_loaded(options_.surroundings, options_.nvml, why, is_absent);
      return false;
    }
  }
  const NvmlFunctions& f = nvml_->functions();
  if (!is_started_) {
    const int code = nvml_->call(*progress_->calls_, "nvmlInit", f.init);
    if (code != kNvmlOk) {
      driver = driver_problem(code, nvml_->error_text(code));
      return false;
    }
    is_started_ = true;
  }
  driver = {.kind = DriverStatus::kReady};
  std::array<char, 96> text{};
  const auto size = static_cast<unsigned>(text.size() - 1);
  if (nvml_->call(
          *progress_->calls_, "nvmlSystemGetDriverVersion", f.driver_version, text.data(), size) ==
      kNvmlOk)
    driver.version = text.data();
  int cuda = 0;  // 12040 is 12.4
  if (nvml_->call(*progress_->calls_, "nvmlSystemGetCudaDriverVersion", f.cuda_version, &cuda) ==
      kNvmlOk)
    driver.cuda = concat(cuda / 1000, '.', cuda % 1000 / 10);
  return true;
}

/// A device that is lost tells no name any more; the last one is shown.
void MachineReader::remember(DeviceStatus& device) {
  Identity& known = known_[device.index];
  const auto keep = [](std::string& text, std::string& last) {
    if (text.empty())
      text = last;
    else
      last = text;
  };
  keep(device.name, known.name);
  keep(device.uuid, known.uuid);
  keep(device.bus_id, known.bus_id);
}

std::vector<DeviceStatus> MachineReader::read_devices(DriverStatus& driver) {
  std::vector<DeviceStatus> devices;
  if (!start_driver(driver)) return devices;
  unsigned count = 0;
  const int counted =
      nvml_->call(*progress_->calls_, "nvmlDeviceGetCount", nvml_->functions().count, &count);
  if (counted != kNvmlOk) {
    const std::string version = driver.version;
    driver = driver_problem(counted, nvml_->error_text(counted));
    driver.version = version;
    end_driver();
    return devices;
  }
  bool is_ended = false, has_fault = false;
  for (unsigned i = 0; i < std::min(count, kMostDevices); ++i) {
    int code = kNvmlOk;
    devices.push_back(DeviceQuestions(*nvml_, *progress_->calls_, i).ask(code));
    remember(devices.back());
    is_ended = is_ended || code == kNvmlUninitialized;
    has_fault = has_fault || !devices.back().fault.empty();
  }
  faulty_reads_ = has_fault ? faulty_reads_ + 1 : 0;
  if (is_ended || faulty_reads_ >= kReadsOfFault) {
    end_driver();
    faulty_reads_ = 0;
  }
  return devices;
}

/// Numbers of processes are taken for those of here if they are the host's, or if the process shows
/// by itself that it uses the driver.
void MachineReader::join_processes(MachineStatus& status) const {
  const Surroundings& around = options_.surroundings;
  const bool has_own_pids = has_host_pids(around);
  std::vector<int64_t> listed{::getpid()};
  for (DeviceStatus& device : status.devices) {
    for (DeviceProcess& process : device.processes) {
      const PublishedState* state = state_of(status.published, process.pid);
      auto allocator = state ? allocator_on(*state, device, process) : std::nullopt;
      auto facts = process_facts(around, process.pid);
      if (!has_own_pids && facts && !allocator && !has_driver_open(around, process.pid))
        facts.reset();
      process.where = facts          ? Whereabouts::kHere
                      : has_own_pids ? Whereabouts::kGone
                                     : Whereabouts::kElsewhere;
      status.has_foreign_pids = status.has_foreign_pids || process.where == Whereabouts::kElsewhere;
      if (!facts) continue;
      listed.push_back(process.pid);
      process.facts = std::move(facts);
      if (state != nullptr) process.published = *state;
      process.allocator = std::move(allocator);
    }
  }
  if (has_own_pids || status.devices.empty()) return;
  for (const int64_t pid : process_ids(around)) {
    if (std::ranges::find(listed, pid) != listed.end() || !has_driver_open(around, pid)) continue;
    auto facts = process_facts(around, pid);
    if (!facts) continue;
    const PublishedState* state = state_of(status.published, pid);
    status.unlisted.push_back(
        {std::move(*facts), state != nullptr ? std::optional(*state) : std::nullopt});
  }
}

MachineStatus MachineReader::read() {
  MachineStatus status;
  status.devices = read_devices(status.driver);
  status.published = read_published(options_.published);
  status.host = host_status(options_.surroundings);
  status.processes =
      host_processes(options_.surroundings, status.published.states, options_.processes);
  join_processes(status);
  status.unix_s =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return status;
}

MachineStatus read_machine(const MachineReaderOptions& options) {
  return MachineReader(options).read();
}

std::optional<double> DeviceStatus::memory_share() const {
  if (!memory.value || memory.value->total_bytes == 0) return std::nullopt;
  return static_cast<double>(memory.value->used_bytes) /
         static_cast<double>(memory.value->total_bytes);
}

std::string_view whereabouts_word(Whereabouts where) {
  switch (where) {
    case Whereabouts::kHere:
      return "here";
    case Whereabouts::kGone:
      return "gone";
    case Whereabouts::kElsewhere:
      return "elsewhere";
  }
  return "";
}

std::string_view driver_word(DriverStatus::Kind kind) {
  switch (kind) {
    case DriverStatus::kReady:
      return "ready";
    case DriverStatus::kAbsent:
      return "absent";
    case DriverStatus::kFailed:
      return "failed";
  }
  return "";
}

}  // namespace muster::diagnose
