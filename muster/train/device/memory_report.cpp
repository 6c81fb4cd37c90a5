#include "muster/train/device/memory_report.h"

#include <exception>
#include <optional>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/memory/guard/oom.h"

namespace muster::train {
namespace {

/// "GPU 1 has a total capacity of", "Device 1 has a total capacity of": a pipeline in one process
/// has several.
c10::Device device_in_words(const std::string& words, c10::Device device) {
  const size_t end = words.find(" has a total capacity of ");
  if (end == std::string::npos || device.is_cpu()) return device;
  const std::string_view before = std::string_view(words).substr(0, end);
  const auto index = to_int(before.substr(before.rfind(' ') + 1));
  if (!index || *index < 0 || *index > 127) return device;
  return {device.type(), static_cast<c10::DeviceIndex>(*index)};
}

std::string write_report(const MemoryReportRequest& request, const memory::OomReport& report) {
  if (request.folder.empty() || !request.is_ours) return "";
  const std::string name = request.world_size > 1 ? concat("out_of_memory-rank", request.rank)
                                                  : std::string("out_of_memory");
  try {
    make_writable_folder(request.folder, "output folder");
    write_file_atomic(request.folder / (name + ".json"), json_text(json_of(report), 2) + "\n");
    write_file_atomic(request.folder / (name + ".txt"), report.text());
  } catch (const Error&) {  // a full disk: the run has an error to tell already
    return "";
  }
  return concat("\nreport: ", (request.folder / (name + ".txt")).string());
}

}  // namespace

std::optional<memory::OomReport> explained_memory(const MemoryReportRequest& request) noexcept {
  try {
    const std::exception_ptr error = std::current_exception();
    const std::optional<memory::OutOfMemory> found = memory::out_of_memory_in(error);
    if (!found) return std::nullopt;
    memory::OomReport report = memory::explain(error,
                                               device_in_words(found->words, request.device),
                                               {.owned = request.owned,
                                                .rank = request.world_size > 1 ? request.rank : -1,
                                                .freed = request.freed});
    if (report.cause.kind == memory::OomClass::kLiveTensors && !request.smaller_batch.empty()) {
      report.cause.action = memory::OomAction::kSmallerBatch;
      report.cause.todo = request.smaller_batch;
    }
    return report;
  } catch (...) {  // whatever it is, the error in hand counts more
    return std::nullopt;
  }
}

std::string memory_lines(const MemoryReportRequest& request,
                         const memory::OomReport* report) noexcept {
  try {
    if (report == nullptr || report->cause.kind == memory::OomClass::kUnknown) return "";
    return concat("\ncause: ", report->headline(), write_report(request, *report));
  } catch (...) {  // likewise
    return "";
  }
}

}  // namespace muster::train
