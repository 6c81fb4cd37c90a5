// What can be known of a study's command before it is run.
#pragma once

#include "muster/tune/core/study_spec.h"

namespace muster::cli {

/// For a command that is `muster train …`: has it explain its plan for these values. Throws a usage
/// error with its words if it refuses its command line; another trouble is left to the trial. Takes
/// the time of a start of LibTorch.
void check_train_command(const tune::StudySpec& spec, const tune::Values& values);

}  // namespace muster::cli
