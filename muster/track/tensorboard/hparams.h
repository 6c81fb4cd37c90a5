// Contents of the summaries that TensorBoard's HPARAMS tab reads.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "muster/track/tensorboard/tensorboard.h"

namespace muster::track {

inline constexpr std::string_view kExperimentTag = "_hparams_/experiment";
inline constexpr std::string_view kSessionStartTag = "_hparams_/session_start_info";
inline constexpr std::string_view kSessionEndTag = "_hparams_/session_end_info";

/// Serialised HParamsPluginData, version 0: which hyperparameters and metrics there are, with
/// their types.
std::string experiment_content(const HParams& hparams, std::span<const std::string> metric_tags);

/// The same with what they may be.
std::string experiment_content(std::span<const HParamDomain> hparams,
                               std::span<const std::string> metric_tags);

/// The values of one run. A time of 0 is left out.
std::string session_start_content(const HParams& hparams, double start_time_s);
std::string session_end_content(RunStatus status, double end_time_s);

}  // namespace muster::track
