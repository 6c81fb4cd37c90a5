// How a training ended as a program: what is there to tell, in lines and as JSON.
#pragma once

#include <filesystem>
#include <string>

#include "muster/base/json_fwd.h"
#include "muster/train/loop/fit.h"

namespace muster::train {

struct ProgramEnd {
  bool is_explained = false;  ///< nothing was trained: --explain
  bool is_first = true;       ///< rank 0, or alone; only it has the rest
  bool is_kept = true;        ///< false: a fast dev run, whose folder is gone
  FitResult result;
  std::filesystem::path output;
  std::string place_flags;  ///< what --resume does not take over, as it was said: " --strategy ddp"
};

/// What is there to tell at a run's end: where the state of an interrupted one is, or the time and
/// the folder. One or two lines.
std::string end_text(const ProgramEnd& end, const std::string& command);

/// What --json prints of a run that was not interrupted, as one object: all numbers of its test
/// ("test_accuracy", whatever other metrics its task has, "test_loss"), its steps, and where it is.
Json json_of(const ProgramEnd& end);

}  // namespace muster::train
