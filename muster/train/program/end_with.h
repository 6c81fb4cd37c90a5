// The end of a program whose ranks are threads that do not end.
#pragma once

#include <exception>

#include "muster/distributed/process_group.h"
#include "muster/program/screen/console.h"
#include "muster/train/program/run_program.h"

namespace muster::train {

/// Shows the error as a command shows what it throws, and ends the process with its exit code: threads
/// that are still at work are ended where they stand.
[[noreturn]] void end_with(const std::exception_ptr& error, program::Console& console);

/// Says which ranks have not ended some time after another has failed, and ends by voice.end_with; where
/// there is none, they are waited for. As long as a launcher gives processes.
distributed::ThreadWorld::Overdue overdue_end(const ProgramVoice& voice);

}  // namespace muster::train
