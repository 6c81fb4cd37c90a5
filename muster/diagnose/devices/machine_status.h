// The devices and processes of this machine, read again and again.
#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/diagnose/devices/device_status.h"
#include "muster/diagnose/devices/host_status.h"

namespace muster::diagnose {

class Nvml;
struct NvmlProgress;

struct MachineStatus {
  double unix_s = 0;  ///< when the reading was done
  DriverStatus driver;
  std::vector<DeviceStatus> devices;
  /// The driver names processes by the host's numbers, and this is a container.
  bool has_foreign_pids = false;
  /// In a container: processes here that have the driver open and are on no device's list.
  std::vector<HostProcess> unlisted;
  HostStatus host;
  std::vector<HostProcess> processes;  ///< see MachineReaderOptions::processes
  PublishedFiles published;
};

struct MachineReaderOptions {
  Surroundings surroundings = {};
  /// NVIDIA's library; empty: MUSTER_NVML_LIBRARY of the environment, or libnvidia-ml.so.1.
  std::string nvml = {};
  std::filesystem::path published = status_folder();
  /// Of the machine's processes so many, the largest, beside those that publish.
  size_t processes = 10;
};

/// What a reader does at the moment, for whoever waits for it. Any thread may look.
class ReadProgress {
 public:
  ReadProgress();
  ~ReadProgress();
  /// "nvmlDeviceGetPowerUsage of device 1"; empty: nothing that another has to answer.
  std::string waits_for() const;

 private:
  friend class MachineReader;
  std::unique_ptr<NvmlProgress> calls_;
};

/// Loads NVML when it first reads, and starts it anew after it has failed (a driver that was loaded
/// again, a device that came back). A call of the driver may take seconds, or never come back: read on
/// a thread of its own where something else waits. One thread.
class MachineReader {
 public:
  explicit MachineReader(MachineReaderOptions options = {});
  ~MachineReader();

  /// Never throws for what it finds; what could not be read says why.
  MachineStatus read();

  std::shared_ptr<const ReadProgress> progress() const { return progress_; }

 private:
  struct Identity {
    std::string name, uuid, bus_id;
  };
  bool start_driver(DriverStatus& driver);
  std::vector<DeviceStatus> read_devices(DriverStatus& driver);
  void remember(DeviceStatus& device);
  void end_driver();
  void join_processes(MachineStatus& status) const;

  MachineReaderOptions options_;
  std::shared_ptr<ReadProgress> progress_;
  std::unique_ptr<Nvml> nvml_;
  bool is_started_ = false;
  int faulty_reads_ = 0;
  std::map<int64_t, Identity> known_;  // by index, since the start: a lost device tells no name
};

/// One reading of this machine, in this thread.
MachineStatus read_machine(const MachineReaderOptions& options = {});

}  // namespace muster::diagnose
