#include "muster/tune/views/table_reporter.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <ostream>
#include <utility>

namespace muster::tune {
namespace {

class TableReporter {
 public:
  TableReporter(std::ostream& out, TableReporterOptions options)
      : out_(out), options_(std::move(options)) {}

  void on_events(const StudyCore& core, std::span<const Event> events) {
    if (events.empty()) return;
    const double now_s = events.back().time_s;
    if (!started_s_) started_s_ = events.front().time_s;
    const bool over = is_over_now(core);
    if (!over && written_s_ && now_s - *written_s_ < options_.max_report_frequency) return;
    written_s_ = now_s;
    const StatusFacts facts{.now_s = now_s,
                            .started_s = *started_s_,
                            .before_s = core.used_s(),
                            .storage = core.spec().storage.string(),
                            .planned = core.planned_trials()};
    StatusOptions status = options_.status;
    status.final = over;
    out_ << status_table(core, facts, status);
    if (over) out_ << summary(core, facts);
    out_ << std::flush;
  }

 private:
  /// All trials have been started, so that only their last ends look at each of them.
  static bool is_over_now(const StudyCore& core) {
    const auto trials = core.trials();
    if (static_cast<int64_t>(trials.size()) != core.planned_trials()) return false;
    return std::ranges::all_of(trials, [](const Trial& trial) { return is_over(trial.state); });
  }

  std::ostream& out_;
  TableReporterOptions options_;
  std::optional<double> started_s_, written_s_;
};

}  // namespace

std::function<void(const StudyCore& core, std::span<const Event> events)> table_reporter(
    std::ostream& out, const TableReporterOptions& options) {
  auto reporter = std::make_shared<TableReporter>(out, options);
  return [reporter](const StudyCore& core, std::span<const Event> events) {
    reporter->on_events(core, events);
  };
}

}  // namespace muster::tune
