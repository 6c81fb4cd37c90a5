// What `muster gpu` shows of a reading, row by row: for text and for the whole screen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/diagnose/devices/machine_status.h"

#include "cli/gpu/columns.h"

namespace muster::cli {

struct ShownLine {
  std::string text;
  Look look = Look::kPlain;
};

/// A row for each device and, below it, for each instance under MIG.
TextColumns device_columns(const diagnose::MachineStatus& status, size_t width);

/// A process of a device, or of the machine. Points into the reading.
struct ProcessRow {
  /// "0", "1.0" for instance 0 of device 1; of one that is on no list what the program calls it,
  /// "cuda:0"; empty: none.
  std::string device;
  bool is_listed = false;  ///< by the driver, on a device
  int64_t device_index = -1;
  int64_t pid = 0;
  std::string user, kind, memory;  ///< as they are shown
  std::optional<uint64_t> device_bytes, allocated_bytes, reserved_bytes, rss_bytes;
  std::string command;
  Look look = Look::kPlain;
  const diagnose::ProcessFacts* facts = nullptr;
  const diagnose::PublishedState* published = nullptr;
};

enum class ProcessOrder { kDevice, kMemory, kRss, kPid };

/// "device", "memory", "RSS" or "pid".
std::string_view order_word(ProcessOrder order);

/// Those of devices; then those that publish (a row for each of their allocators) or have the driver
/// open without being on a list; where there is no device, the machine's largest.
std::vector<ProcessRow> process_rows(const diagnose::MachineStatus& status, ProcessOrder order);

TextColumns process_columns(const std::vector<ProcessRow>& rows, size_t width);

/// The driver and how many devices, or why there are none.
ShownLine driver_line(const diagnose::MachineStatus& status);

/// What is wrong or missing, and the next step. Not folded.
std::vector<ShownLine> machine_notes(const diagnose::MachineStatus& status);

/// Memory, control group, pressure. Not folded.
std::vector<ShownLine> host_lines(const diagnose::HostStatus& host);

/// "31 GiB of 40 GiB".
std::string bytes_of(uint64_t used, uint64_t total);

/// "38 %".
std::string percent_of(double share);

}  // namespace muster::cli
