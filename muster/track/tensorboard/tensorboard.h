// A run as TensorBoard sees it: scalars, texts, histograms, pictures and hyperparameters as events.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "muster/track/tensorboard/event_file.h"
#include "muster/track/tensorboard/image.h"

namespace muster::track {

/// Name and value, shown in this order.
using HParamValue = std::variant<bool, double, std::string>;
using HParams = std::vector<std::pair<std::string, HParamValue>>;
using Metrics = std::vector<std::pair<std::string, double>>;

/// A hyperparameter of an experiment of many runs, with what it may be: one of the values, all of
/// one type, or a number of the interval.
struct HParamDomain {
  enum class Type { kNumber, kBool, kText } type = Type::kNumber;
  std::string name;
  std::vector<HParamValue> values;  ///< empty: not a list
  std::optional<std::pair<double, double>> interval;
};

/// How a run ended, for the HPARAMS tab.
enum class RunStatus { kSuccess, kFailure };

struct TensorBoardOptions {
  /// A resumed run: readers drop what earlier files of the folder hold at this step and later. For
  /// a run resumed after step n that is n + 1.
  std::optional<int64_t> purge_step;
  /// Up to so many bytes are held back until flush(). 0: each event is one write(2) at once, so
  /// that a kill loses nothing; an event of a scalar takes about 60 bytes and 2 microseconds.
  size_t buffer_bytes = 0;
  /// Seconds since 1970, for events without a wall time and for the file's name; empty: the
  /// system's.
  std::function<double()> clock;
};

// Note [TensorBoard events]
// A run's folder holds one event file per process that wrote to it (first start, each resume), and
// TensorBoard reads them in the order of their names as one stream. Each file starts with its
// version. The events are those that torch.utils.tensorboard.SummaryWriter writes for the same
// calls, byte for byte (tests/golden/tensorboard, tests/parity/test_tensorboard.py), except that
// - booleans among hyperparameters stay booleans: SummaryWriter turns them into 1.0 and 0.0;
// - grey pictures stay grey: SummaryWriter stores three equal channels;
// - hyperparameters go to the run's own file, not to a run of their own in a sub-folder, so that
//   the HPARAMS tab finds the run's curves.
// Tags and texts that are not UTF-8 are mended (U+FFFD): a reader would refuse the whole event.

/// Writes the event file of one process of a run (rank 0). One thread. Every method throws an
/// environment error when the disk refuses; the file then ends at its last whole event.
class TensorBoardWriter {
 public:
  /// Creates the folder and a file in it that sorts behind those of earlier processes.
  explicit TensorBoardWriter(const std::filesystem::path& folder, TensorBoardOptions options = {});
  TensorBoardWriter(TensorBoardWriter&&) = default;

  /// A point of the curve named `tag`, stored as float32; NaN and infinity are stored as such.
  /// `wall_time` is in seconds since 1970. Throws a usage error for an empty tag, as all below do.
  void add_scalar(std::string_view tag,
                  double value,
                  int64_t step,
                  std::optional<double> wall_time = {});

  /// Markdown, under "<tag>/text_summary".
  void add_text(std::string_view tag,
                std::string_view text,
                int64_t step,
                std::optional<double> wall_time = {});

  /// See tensorboard_histogram() for bins, values that are not finite, and the usage error.
  void add_histogram(std::string_view tag,
                     std::span<const float> values,
                     int64_t step,
                     std::optional<double> wall_time = {});
  void add_histogram(std::string_view tag,
                     std::span<const double> values,
                     int64_t step,
                     std::optional<double> wall_time = {});

  /// Throws encode_png()'s usage errors.
  void add_image(std::string_view tag,
                 const Image& image,
                 int64_t step,
                 std::optional<double> wall_time = {});

  /// All of a finished session at once, as SummaryWriter.add_hparams: names and types, values,
  /// success, and each metric as a scalar.
  void add_hparams(const HParams& hparams,
                   const Metrics& metrics,
                   std::optional<int64_t> step = {},
                   std::optional<double> wall_time = {});

  /// The same in two parts, for a session that the HPARAMS tab should list while it runs.
  /// `metric_tags` are tags of add_scalar.
  void start_hparams(const HParams& hparams, std::span<const std::string> metric_tags);
  void end_hparams(RunStatus status, std::optional<double> wall_time = {});

  /// For an experiment of many runs: its hyperparameters and metrics once, in the folder above
  /// those of the runs, since TensorBoard looks no farther than the first description that it finds
  /// …
  void add_experiment(std::span<const HParamDomain> hparams,
                      std::span<const std::string> metric_tags);
  /// … and in each run its values. end_hparams() ends it.
  void start_session(const HParams& hparams, std::optional<double> wall_time = {});

  void flush() { file_.flush(); }
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  struct Moment;  // step and wall time of an event
  template <class Fill>
  void add_value(std::string_view tag, const Moment& moment, Fill fill);
  template <class Number>
  void add_numbers(std::string_view tag, std::span<const Number> values, const Moment& moment);
  void add_plugin_summary(std::string_view tag, const std::string& content, const Moment& moment);
  void add_version();
  void add_purge(int64_t step);

  std::function<double()> clock_;
  EventFile file_;
};

/// Whether the newest event file of `folder` closes with end_hparams(): all of a session is there.
/// False where there is none, or none that can be read.
bool holds_whole_session(const std::filesystem::path& folder);

}  // namespace muster::track
