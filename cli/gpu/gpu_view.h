// The screen of `muster gpu --watch`: a model that takes readings and keys, and how it is drawn.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/diagnose/devices/machine_status.h"

#include "cli/gpu/gpu_history.h"
#include "cli/gpu/machine_rows.h"
#include "cli/screen/canvas.h"
#include "cli/screen/full_screen.h"

namespace muster::cli {

/// The least terminal that has room; a smaller one is told so.
inline constexpr size_t kLeastGpuColumns = 50, kLeastGpuRows = 10;

class GpuModel {
 public:
  using Status = std::shared_ptr<const diagnose::MachineStatus>;

  /// A new reading: it is shown unless the screen is held, and its curves are kept in any case.
  void update(Status status);

  /// False: the user leaves.
  bool on_key(const Key& key);

  /// So many rows of the processes are in sight: the selected one stays among them.
  void set_page(size_t rows);

  const diagnose::MachineStatus* status() const { return status_.get(); }  ///< null: none yet
  const diagnose::MachineStatus* newest() const { return last_.get(); }  ///< also while it is held
  const GpuHistory& history() const { return history_; }
  const std::vector<ProcessRow>& rows() const { return rows_; }
  size_t selected() const { return selected_; }
  size_t top() const { return top_; }
  ProcessOrder order() const { return order_; }
  bool is_held() const { return is_held_; }
  bool has_details() const { return details_; }
  bool has_help() const { return help_; }

 private:
  void sort();
  void move_to(int64_t row);

  Status status_, last_;
  GpuHistory history_;
  std::vector<ProcessRow> rows_;
  ProcessOrder order_ = ProcessOrder::kDevice;
  bool is_chosen_ = false;  // the order, by a key
  bool is_held_ = false, details_ = false, help_ = false;
  size_t selected_ = 0, top_ = 0, page_ = 1;
};

/// What the reader waits for at the moment.
struct GpuWait {
  double reading_s = 0;   ///< since when the reading under way runs; 0: none is
  std::string on = {};    ///< "nvmlDeviceGetPowerUsage of device 1"; empty: not the driver
  double interval_s = 1;  ///< between readings
};

/// Draws the model, which learns how many of its processes are in sight.
void draw_gpu(GpuModel& model, const GpuWait& wait, Canvas& canvas);

}  // namespace muster::cli
