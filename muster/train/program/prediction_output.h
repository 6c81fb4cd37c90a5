// Where predictions go, and what a signal makes of them.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <memory>
#include <string_view>

namespace muster {
class AtomicFile;
}

namespace muster::train {

/// A file that appears as a whole, or, for "-", lines of a stream. Of rank 0.
class PredictionOutput {
 public:
  /// Throws a usage error for a folder, or what else is no file that can be replaced. `out` outlives
  /// this.
  PredictionOutput(const std::filesystem::path& output, std::ostream& out);
  ~PredictionOutput();

  /// Throws PredictionStopped if a signal came: of a file nothing is left then under any name.
  void write(std::string_view text);

  /// The file is there.
  void commit();

 private:
  std::ostream& out_;
  std::unique_ptr<AtomicFile> file_;
};

struct PredictionStopped {};

/// From now on the first SIGINT or SIGTERM stops the predictions of this process; the second one
/// kills. A limit of the file's size is an error, not the end.
void watch_prediction_signals();

}  // namespace muster::train
