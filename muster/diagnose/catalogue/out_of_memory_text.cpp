#include "muster/diagnose/catalogue/out_of_memory_text.h"

#include <algorithm>
#include <array>
#include <utility>

#include "muster/base/text.h"

namespace muster::diagnose {
namespace {

constexpr double kKiB = 1024;
constexpr std::array<std::pair<std::string_view, double>, 8> kUnitsOfBytes{
    {{"bytes", 1},
     {"B", 1},
     {"KiB", kKiB},
     {"MiB", kKiB* kKiB},
     {"GiB", kKiB* kKiB* kKiB},
     {"TiB", kKiB* kKiB* kKiB* kKiB},
     {"MB", kKiB* kKiB},
     {"GB", kKiB* kKiB* kKiB}}};

/// The amount behind `words`.
std::optional<double> amount_behind(std::string_view line, std::string_view words) {
  const size_t at = line.find(words);
  return at == std::string_view::npos ? std::nullopt
                                      : read_bytes_text(line.substr(at + words.size()));
}

/// The amount before `words`: a number, a blank, a unit, a blank.
std::optional<double> amount_before(std::string_view line, std::string_view words) {
  const size_t end = line.find(words);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view before = trim(line.substr(0, end));
  const size_t unit = before.rfind(' ');
  if (unit == std::string_view::npos || unit == 0) return std::nullopt;
  const size_t number = before.find_last_of(" (;", unit - 1);
  return read_bytes_text(before.substr(number == std::string_view::npos ? 0 : number + 1));
}

constexpr size_t kMostProcesses = 64;

/// "Process 4711 has 3.00 GiB memory in use. Process 9 has …"
std::vector<MemoryOfProcess> other_processes(std::string_view line) {
  constexpr std::string_view kProcess = "Process ", kHas = " has ";
  std::vector<MemoryOfProcess> others;
  size_t at = line.find(kProcess);
  while (at != std::string_view::npos && others.size() < kMostProcesses) {
    const std::string_view rest = line.substr(at + kProcess.size());
    const auto pid = to_int(rest.substr(0, rest.find(' ')));
    const size_t has = rest.find(kHas);
    if (pid && has != std::string_view::npos && has == rest.find(' ')) {
      if (const auto bytes = read_bytes_text(rest.substr(has + kHas.size())))
        others.push_back({*pid, *bytes});
    }
    at = line.find(kProcess, at + kProcess.size());
  }
  return others;
}

std::optional<double> either(std::optional<double> first, std::optional<double> second) {
  return first ? first : second;
}

}  // namespace

std::optional<double> read_bytes_text(std::string_view text) {
  text = trim(text);
  const size_t digits = text.find_first_not_of("0123456789.");
  if (digits == 0 || digits == std::string_view::npos || text[digits] != ' ') return std::nullopt;
  const auto number = to_double(text.substr(0, digits));
  const std::string_view unit = text.substr(digits + 1);
  const auto same = std::ranges::find_if(
      kUnitsOfBytes, [&](const auto& known) { return unit.starts_with(known.first); });
  if (!number || same == kUnitsOfBytes.end()) return std::nullopt;
  return *number * same->second;
}

OutOfMemoryText out_of_memory_text(std::string_view line) {
  OutOfMemoryText text;
  text.asked = either(amount_behind(line, "Tried to allocate "),
                      amount_behind(line, "tried to allocate "));  // of the CPU's allocator
  // "capacty" is how PyTorch 2.1 spelled it.
  text.total = either(
      either(amount_behind(line, "total capacity of "), amount_behind(line, "total capacty of ")),
      amount_before(line, " total capacity"));
  text.free = either(amount_before(line, " is free"), amount_before(line, " free;"));
  text.allocated = either(amount_before(line, " is allocated by PyTorch"),
                          amount_before(line, " already allocated"));
  text.idle = amount_before(line, " is reserved by PyTorch but unallocated");
  const auto reserved = amount_before(line, " reserved in total");
  if (!text.idle && reserved && text.allocated)
    text.idle = std::max(0.0, *reserved - *text.allocated);
  text.own = amount_behind(line, "this process has ");
  text.in_pools = amount_before(line, " allocated in private pools");
  text.allowed = amount_before(line, " allowed");
  text.others = other_processes(line);
  text.has_own = text.own.has_value();
  if (!text.own && text.allocated) text.own = *text.allocated + text.idle.value_or(0);
  return text;
}

}  // namespace muster::diagnose
