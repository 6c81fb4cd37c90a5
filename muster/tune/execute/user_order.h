// How `muster study stop`, `pause` and `continue` reach the tuner that runs a study.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "muster/tune/trial/protocol.h"

namespace muster::tune {

/// What is known of a study only where it is run, for those who watch it.
struct TunerFacts {
  double time_budget_s = 0;            ///< 0: none
  int64_t max_concurrent = 0;          ///< 0: what the resources allow
  int64_t planned = -1;                ///< trials, without those added by hand; -1: without end
  std::filesystem::path trial_folder;  ///< whose trial-N/stdout.log has what trial N printed
};

/// A tuner that listens, as its file says.
struct TunerContact {
  int pid = 0;
  Address address;
  std::string token;
  TunerFacts facts = {};
};

/// The file that a tuner with a socket keeps beside the storage while it runs:
/// file_of_study(storage, study, "tuner").
std::filesystem::path contact_file(const std::filesystem::path& storage, std::string_view study);

/// Written atomically, for the owner's eyes only. Throws an environment error.
void write_contact(const std::filesystem::path& file, const TunerContact& contact);

/// Nothing if the file is not there or is no contact.
std::optional<TunerContact> read_contact(const std::filesystem::path& file);

/// Asks the tuner of a study to stop, as Ctrl-C would, and waits until it has said that it will, at
/// most `timeout_s`. Throws a usage error if no tuner of the study can be reached (none runs, another
/// machine, trials are functions of its own process).
void request_stop(const std::filesystem::path& storage,
                  std::string_view study,
                  double timeout_s = 10);

/// Has it stop or pause one trial, or let it go on: StudyCore::stop_trial and its sisters. Returns
/// what becomes of the trial, in words, when that is stored. Throws as request_stop, and a usage
/// error if it refuses.
std::string order_trial(const std::filesystem::path& storage,
                        std::string_view study,
                        int64_t trial,
                        Action action,
                        double timeout_s = 10);

}  // namespace muster::tune
