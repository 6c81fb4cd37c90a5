// Progress and lines of a rank: to its launcher, or drawn here where there is none.
#pragma once

#include <memory>
#include <ostream>
#include <string>

#include "muster/program/screen/console.h"
#include "muster/program/screen/live_bar.h"
#include "muster/track/progress.h"
#include "muster/track/progress_pipe.h"

namespace muster::program {

/// One thread.
class Reporter {
 public:
  Reporter(Console& console, bool under_launcher) : console_(console) {
    if (!under_launcher) bar_ = std::make_unique<LiveBar>(console);
  }

  void progress(const track::ProgressEvent& event) {
    if (bar_) bar_->update(event);
    pipe_.write(event);
  }

  void note(const std::string& line) {
    if (bar_) {
      bar_->print_err(line);
    } else {
      console_.err() << line << '\n' << std::flush;
    }
  }

  /// Takes the bar away.
  void finish() {
    if (bar_) bar_->finish();
    bar_.reset();
  }

 private:
  Console& console_;
  std::unique_ptr<LiveBar> bar_;
  track::ProgressPipe pipe_;
};

}  // namespace muster::program
