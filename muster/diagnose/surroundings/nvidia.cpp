#include "muster/diagnose/surroundings/nvidia.h"

#include <algorithm>

#include "muster/base/text.h"

namespace muster::diagnose {
namespace {

constexpr const char* kLibraryFolders[] = {"/usr/lib/x86_64-linux-gnu",
                                           "/usr/lib/aarch64-linux-gnu",
                                           "/usr/lib64",
                                           "/usr/lib",
                                           "/usr/lib/wsl/lib",
                                           "/usr/local/nvidia/lib64"};

/// "550.54.15": numbers and points, at least one point, beginning and ending in a digit.
bool is_version(std::string_view word) {
  return word.size() > 2 && word.find('.') != std::string_view::npos &&
         word.find_first_not_of("0123456789.") == std::string_view::npos && word.front() != '.' &&
         word.back() != '.';
}

}  // namespace

std::optional<std::string> nvidia_module_version(const Surroundings& surroundings) {
  const auto text = surroundings.file("/proc/driver/nvidia/version");
  if (!text) return std::nullopt;
  for (const std::string& word : split(first_line(*text), ' ')) {
    if (is_version(word)) return word;
  }
  return std::nullopt;
}

std::optional<std::string> nvidia_library_version(const Surroundings& surroundings,
                                                  std::string_view name) {
  const std::string start = concat(name, ".");
  for (const char* folder : kLibraryFolders) {
    for (const std::string& file : surroundings.names_in(folder)) {
      if (file.starts_with(start) && is_version(std::string_view(file).substr(start.size())))
        return file.substr(start.size());
    }
  }
  return std::nullopt;
}

int64_t nvidia_device_files(const Surroundings& surroundings) {
  constexpr std::string_view kStart = "nvidia";
  return std::ranges::count_if(surroundings.names_in("/dev"), [&](const std::string& name) {
    return name.starts_with(kStart) && to_int(std::string_view(name).substr(kStart.size()));
  });
}

}  // namespace muster::diagnose
