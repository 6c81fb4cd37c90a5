#include "cli/gpu/gpu_view.h"

#include <algorithm>
#include <cmath>

#include "muster/base/local_time.h"
#include "muster/base/text.h"
#include "muster/base/text_table.h"

namespace muster::cli {
namespace {

constexpr double kLateS = 3;           // a reading that takes longer is said
constexpr size_t kLeastProcesses = 3;  // rows of them, before devices are left out

std::string curve(const std::vector<double>& values, size_t width) {
  const size_t from = values.size() > width ? values.size() - width : 0;
  return sparkline({values.begin() + static_cast<int64_t>(from), values.end()}, width, 0, 1);
}

/// "util ▁▂▇  87 %": a label, the curve, its last value.
void draw_curve(Canvas& canvas,
                size_t row,
                size_t column,
                const char* label,
                const std::vector<double>& values,
                size_t width) {
  const double last = values.empty() ? NAN : values.back();
  const std::string end = std::isfinite(last) ? percent_of(last) : "-";
  constexpr size_t kEnd = 6;
  canvas.put(row, column, label, Look::kDim);
  const size_t start = column + std::string_view(label).size() + 1;
  const size_t taken = start - column + kEnd + 1;
  const size_t room = width > taken ? width - taken : 1;
  canvas.put(row, start, curve(values, room), Look::kRunning, room);
  canvas.put(row, start + room + 1 + kEnd - std::min(kEnd, columns_of(end)), end);
}

void draw_two_curves(Canvas& canvas,
                     size_t row,
                     const char* first_label,
                     const std::vector<double>& first,
                     const char* second_label,
                     const std::vector<double>& second) {
  const size_t half = (canvas.columns() - 2) / 2;
  draw_curve(canvas, row, 2, first_label, first, half - 2);
  draw_curve(canvas, row, half + 2, second_label, second, half - 1);
}

ShownLine wait_line(const GpuModel& model, const GpuWait& wait) {
  if (wait.reading_s >= kLateS) {
    return {concat("no answer for ",
                   fixed(std::floor(wait.reading_s), 0),
                   " s",
                   wait.on.empty() ? "" : concat(" from ", wait.on)),
            Look::kBad};
  }
  if (model.is_held()) return {"held", Look::kWarning};
  return {concat("every ", shortest(wait.interval_s), " s"), Look::kDim};
}

void draw_head(const GpuModel& model, const GpuWait& wait, Canvas& canvas) {
  const ShownLine right = wait_line(model, wait);
  const size_t least_left = right.look == Look::kBad ? 8 : canvas.columns() / 3;
  const size_t taken = std::min(columns_of(right.text), canvas.columns() - least_left);
  const size_t left = canvas.columns() - taken - 2;
  if (model.status() == nullptr) {
    canvas.put(0, 0, "reading …", Look::kDim, left);
  } else {
    const ShownLine driver = driver_line(*model.status());
    const size_t used = canvas.put(0, 0, model.status()->host.name, Look::kTitle, left);
    if (used + 2 < left) canvas.put(0, used + 2, driver.text, driver.look, left - used - 2);
  }
  canvas.put(0, canvas.columns() - taken, right.text, right.look, taken);
}

/// Rows of the table of devices and, where there is room, curves below each. Returns the next row.
size_t draw_devices(const GpuModel& model, size_t row, size_t end, Canvas& canvas) {
  const diagnose::MachineStatus& status = *model.status();
  if (status.devices.empty() || row + 1 >= end) return row;
  const TextColumns columns = device_columns(status, canvas.columns());
  const bool has_curves = row + 1 + columns.rows() + status.devices.size() <= end;
  columns.draw_header(canvas, row++);
  size_t cell = 0;
  for (size_t i = 0; i < status.devices.size(); ++i) {
    const diagnose::DeviceStatus& device = status.devices[i];
    const size_t needed = 1 + device.instances.size();
    if (row + needed > end || (row + needed == end && i + 1 < status.devices.size())) {
      canvas.put(row++,
                 0,
                 concat("and ",
                        status.devices.size() - i,
                        " more devices: a larger "
                        "terminal shows them"),
                 Look::kDim);
      break;
    }
    columns.draw_row(canvas, row++, cell++);
    if (has_curves)
      draw_two_curves(canvas,
                      row++,
                      "util",
                      model.history().load_of(device.index),
                      "memory",
                      model.history().memory_of(device.index));
    for (size_t part = 0; part < device.instances.size(); ++part)
      columns.draw_row(canvas, row++, cell++);
  }
  return row;
}

size_t draw_host(const GpuModel& model, size_t row, size_t end, Canvas& canvas) {
  if (row < end)
    draw_two_curves(
        canvas, row++, "cpu ", model.history().cpu(), "memory", model.history().host_memory());
  for (const ShownLine& line : host_lines(model.status()->host)) {
    if (row < end) canvas.put(row++, 0, line.text, line.look);
  }
  return row;
}

/// What there is to tell of one process.
std::vector<ShownLine> details_of(const ProcessRow& row) {
  std::vector<ShownLine> lines;
  lines.push_back({concat("── process ", row.pid, ' '), Look::kTitle});
  if (row.facts == nullptr) {
    lines.push_back({row.command, Look::kDim});
    return lines;
  }
  const diagnose::ProcessFacts& facts = *row.facts;
  lines.push_back({facts.command});
  lines.push_back(
      {concat("user ",
              facts.user,
              ", resident ",
              human_bytes(facts.rss_bytes),
              facts.peak_bytes > 0 ? concat(", at most ", human_bytes(facts.peak_bytes)) : "",
              facts.swap_bytes > 0 ? concat(", swapped ", human_bytes(facts.swap_bytes)) : "")});
  if (!facts.cgroup.empty()) lines.push_back({concat("cgroup ", facts.cgroup), Look::kDim});
  if (row.published == nullptr) {
    lines.push_back({"it publishes nothing of its allocator", Look::kDim});
    return lines;
  }
  const diagnose::PublishedState& state = *row.published;
  std::string who = state.program;
  if (state.rank >= 0) who += concat(", rank ", state.rank, " of ", state.world_size);
  if (!state.doing.empty()) who += concat(", ", state.doing);
  lines.push_back({concat(who, ", said at ", local_time(state.updated_unix_s, "%H:%M:%S"))});
  for (const diagnose::PublishedDevice& device : state.devices) {
    lines.push_back({concat(device.name,
                            ": allocated ",
                            human_bytes(device.allocated_bytes),
                            " (peak ",
                            human_bytes(device.peak_allocated_bytes),
                            "), reserved ",
                            human_bytes(device.reserved_bytes),
                            " (peak ",
                            human_bytes(device.peak_reserved_bytes),
                            ")")});
    if (device.retries > 0 || device.out_of_memory > 0)
      lines.push_back({concat(device.name,
                              ": cache emptied ",
                              device.retries,
                              " times to have room, out of memory ",
                              device.out_of_memory,
                              " times"),
                       Look::kWarning});
  }
  return lines;
}

void draw_details_of(const ProcessRow& process, size_t row, size_t end, Canvas& canvas) {
  for (ShownLine& line : details_of(process)) {
    if (line.look == Look::kTitle) {
      while (columns_of(line.text) < canvas.columns()) line.text += "─";
      if (row < end) canvas.put(row++, 0, line.text, line.look);
      continue;
    }
    for (const std::string& part : split(fold(escaped(line.text), canvas.columns()), '\n')) {
      if (!part.empty() && row < end) canvas.put(row++, 0, part, line.look);
    }
  }
}

void draw_processes(GpuModel& model, size_t row, size_t end, Canvas& canvas) {
  if (row + 1 >= end) return;
  const size_t body = end - row - 1;
  const bool has_details = model.has_details() && !model.rows().empty() && body > 2;
  const size_t details =
      has_details ? std::min<size_t>(body - 2, std::max<size_t>(body / 2, 6)) : 0;
  model.set_page(body - details);
  if (model.rows().empty()) {
    canvas.put(row, 0, "no process", Look::kDim);
    return;
  }
  const TextColumns columns = process_columns(model.rows(), canvas.columns());
  const size_t first = model.top(), last = std::min(first + body - details, model.rows().size());
  columns.draw_header(canvas, row++);
  for (size_t i = first; i < last; ++i)
    columns.draw_row(canvas, row + i - first, i, i == model.selected());
  if (has_details)
    draw_details_of(model.rows()[model.selected()], row + body - details, end, canvas);
}

void draw_gpu_help(Canvas& canvas) {
  constexpr const char* kLines[] = {"arrows, j k, PgUp PgDn, g G   move among the processes",
                                    "Enter   details of the process, on and off",
                                    "s       sort: by device, memory, RSS, pid",
                                    "space   hold the screen; again: go on",
                                    "q       leave",
                                    "",
                                    "util: share of time in which a kernel ran",
                                    "memory: of the device, by the driver",
                                    "allocated, reserved: what the process says of",
                                    "        its allocator, if it takes part"};
  canvas.put(1, 0, "keys", Look::kTitle);
  size_t row = 2;
  for (const char* line : kLines) canvas.put(row++, 2, line);
}

}  // namespace

void draw_gpu(GpuModel& model, const GpuWait& wait, Canvas& canvas) {
  if (says_too_small(canvas, kLeastGpuColumns, kLeastGpuRows)) return;
  draw_head(model, wait, canvas);
  const size_t last = canvas.rows() - 1;
  canvas.put(
      last,
      0,
      concat(
          "? help  Enter details  s sort (by ", order_word(model.order()), ")  space hold  q quit"),
      Look::kDim);
  if (model.has_help()) return draw_gpu_help(canvas);
  if (model.status() == nullptr) {
    if (wait.on.empty()) return;
    canvas.put(2, 0, concat("waiting for ", wait.on), Look::kDim);
    return;
  }
  size_t row = draw_devices(model, 1, last - kLeastProcesses - 1, canvas);
  for (const ShownLine& note : machine_notes(*model.status())) {
    if (note.look == Look::kDim || row + kLeastProcesses + 2 >= last) continue;
    canvas.put(row++, 0, note.text, note.look);
  }
  row = draw_host(model, row, last - kLeastProcesses, canvas);
  draw_processes(model, row, last, canvas);
}

}  // namespace muster::cli
