// The words that a run was told, as its config.toml says them again.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "muster/program/config/config_file.h"
#include "muster/train/plan/options.h"

namespace muster::train {

/// Of a run that goes on: `before` is what its config file says, `told` this start, as
/// program::said_words() has it. Words of kOfOnePlace are there only where they were told now. Of
/// options that may be told anew each word says what holds `now`: others (of a start that the run
/// went back behind, or that was killed) give way to it, and what is not as when nobody says it,
/// `unsaid`, is said. Of the others those of before stay, where this start leaves them to the run
/// ("auto"). Options: FitOptions or TrainOptions.
template <class Options>
std::vector<std::string> told_words(std::vector<std::string> before,
                                    std::vector<std::string> told,
                                    const Options& now,
                                    const Options& unsaid);

/// Writes the config file of a run that begins, which says `told`, or goes on: see told_words().
/// One that cannot be read stays as it is (of another plan as kConfigBefore), and `note` is told.
template <class Options>
void keep_config(const std::filesystem::path& run,
                 bool goes_on,
                 const std::vector<std::string>& told,
                 const Options& now,
                 const Options& unsaid,
                 std::span<const program::ConfigKey> keys,
                 const std::function<void(const std::string&)>& note);

}  // namespace muster::train
