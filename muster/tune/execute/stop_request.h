// How `muster study stop` reaches the tuner that runs a study.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "muster/tune/trial/protocol.h"

namespace muster::tune {

/// A tuner that listens, as its file says.
struct TunerContact {
  int pid = 0;
  Address address;
  std::string token;
};

/// The file that a tuner with a socket keeps beside the storage while it runs:
/// file_of_study(storage, study, "tuner").
std::filesystem::path contact_file(const std::filesystem::path& storage, std::string_view study);

/// Written atomically, for the owner's eyes only. Throws an environment error.
void write_contact(const std::filesystem::path& file, const TunerContact& contact);

/// Nothing if the file is not there or is no contact.
std::optional<TunerContact> read_contact(const std::filesystem::path& file);

/// Asks the tuner of a study to stop trial `trial`, or all and itself (-1), as Ctrl-C would, and
/// waits until it has said that it will, at most `timeout_s`. Throws a usage error if no tuner of
/// the study can be reached (none runs, another machine, trials are functions of its own process),
/// or if it refuses (no such trial runs).
void request_stop(const std::filesystem::path& storage,
                  std::string_view study,
                  int64_t trial = -1,
                  double timeout_s = 10);

}  // namespace muster::tune
