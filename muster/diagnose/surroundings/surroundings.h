// What the checks of the environment look at, with sources that tests can replace.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/rank_env.h"

namespace muster::diagnose {

/// A file system's room.
struct Space {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;  ///< for a user who is not root
  uint64_t free_files = 0;
};

/// Nothing if there is no such path.
std::optional<Space> space_of(const std::filesystem::path& path);

/// Seconds to write a small file into `folder` and to have it on the disk; the file goes again.
/// Nothing if that fails; `why` says why.
std::optional<double> seconds_to_sync(const std::filesystem::path& folder, std::string& why);

/// Addresses that the name resolves to, as text; empty if it does not resolve.
std::vector<std::string> addresses_of(const std::string& host);

/// Addresses of this machine's interfaces that are up, as text.
std::vector<std::string> own_addresses();

/// Whether a socket can be bound to a free port of 127.0.0.1; if not, why.
std::optional<std::string> why_no_loopback();

/// What the dynamic loader would load for `program`, in ldd's lines ("libx.so => /a/libx.so (0x…)").
/// The program is not run. Nothing if it is no dynamic executable of this machine.
std::optional<std::string> loaded_libraries(const std::filesystem::path& program);

/// Everything that a check reads. One thread.
struct Surroundings {
  std::filesystem::path root = "/";  ///< before /proc, /sys, /dev, /usr
  EnvLookup environment = process_environment;
  std::filesystem::path output = ".";  ///< where a run would write
  std::filesystem::path program;       ///< whose libraries are looked for; empty: nobody's
  std::function<std::optional<Space>(const std::filesystem::path&)> space = space_of;
  std::function<std::optional<double>(const std::filesystem::path&, std::string&)> sync =
      seconds_to_sync;
  std::function<std::vector<std::string>(const std::string&)> resolve = addresses_of;
  std::function<std::vector<std::string>()> interfaces = own_addresses;
  std::function<std::optional<std::string>()> loopback = why_no_loopback;
  std::function<std::optional<std::string>(const std::filesystem::path&)> libraries =
      loaded_libraries;

  /// A file below root, as the kernel makes them; nothing if it cannot be read.
  std::optional<std::string> file(std::string_view absolute) const;
  std::filesystem::path path(std::string_view absolute) const;
  bool has(std::string_view absolute) const;
  /// Names in a folder below root, in order; empty if it cannot be read.
  std::vector<std::string> names_in(std::string_view absolute) const;
  /// Empty and not set are told apart.
  std::optional<std::string> variable(std::string_view name) const { return environment(name); }
};

}  // namespace muster::diagnose
