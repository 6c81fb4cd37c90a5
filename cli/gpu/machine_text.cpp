#include "cli/gpu/machine_text.h"

#include <algorithm>

#include "muster/base/text_table.h"

#include "cli/gpu/machine_rows.h"

namespace muster::cli {
namespace {

std::string text_of(const TextColumns& columns, size_t width) {
  Canvas canvas(width, columns.rows() + 1);
  columns.draw_header(canvas, 0);
  for (size_t i = 0; i < columns.rows(); ++i) columns.draw_row(canvas, i + 1, i);
  std::string text;
  for (size_t row = 0; row < canvas.rows(); ++row) text += canvas.line(row) + '\n';
  return text;
}

std::string folded(const ShownLine& line, size_t width, size_t indent) {
  return fold(escaped(line.text), width, indent);
}

}  // namespace

std::string machine_text(const diagnose::MachineStatus& status, size_t width) {
  width = std::max<size_t>(width, 40);
  std::string out = folded(driver_line(status), width, 2);
  if (!status.devices.empty()) out += '\n' + text_of(device_columns(status, width), width);
  const auto notes = machine_notes(status);
  if (!notes.empty() && !status.devices.empty()) out += '\n';
  for (const ShownLine& line : notes) out += folded(line, width, 2);
  const auto rows =
      process_rows(status, status.devices.empty() ? ProcessOrder::kRss : ProcessOrder::kDevice);
  if (!rows.empty()) out += '\n' + text_of(process_columns(rows, width), width);
  out += '\n';
  for (const ShownLine& line : host_lines(status.host)) out += folded(line, width, 10);
  return out;
}

}  // namespace muster::cli
