#include "muster/train/program/prediction_output.h"

#include <ostream>

#include <signal.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/train/program/stop_signals.h"

namespace muster::train {
namespace fs = std::filesystem;

PredictionOutput::PredictionOutput(const fs::path& output, std::ostream& out) : out_(out) {
  if (output == "-") return;
  if (output.empty()) {
    throw usage_error({.refused = "--output",
                       .rule = "the name of a file",
                       .value = "\"\"",
                       .hint = "name a file, or - for stdout"});
  }
  if (fs::exists(output) && !fs::is_regular_file(output)) {
    throw usage_error({.refused = "--output " + output.string(),
                       .rule = fs::is_directory(output) ? "it is a folder, not a file"
                                                        : "it is no file that can be replaced",
                       .hint = "name a file, or - for stdout"});
  }
  file_ = std::make_unique<AtomicFile>(output);
}

PredictionOutput::~PredictionOutput() = default;

void PredictionOutput::write(std::string_view text) {
  if (stop_signalled()) throw PredictionStopped();
  if (file_) {
    file_->write(text);
  } else {
    out_ << text << std::flush;
  }
}

void PredictionOutput::commit() {
  if (stop_signalled()) throw PredictionStopped();
  if (file_) file_->commit();
}

void watch_prediction_signals() {
  watch_stop_signals();
  ::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace muster::train
