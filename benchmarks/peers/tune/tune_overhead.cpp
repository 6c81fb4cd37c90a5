// Our side of benchmarks/peers/tune: one study that does nothing, by tune::run.
//
//     tune_overhead trials|reports|memory --trials N [--storage FILE] [--durable] [--threads T]
//
// Prints one JSON object: seconds of the whole tune::run, and by how much the resident set's peak
// is above what it was before. `trials` and `memory` report once per trial, `reports` 20 times.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

#include "muster/base/text.h"
#include "muster/tune/run/run.h"

#include "benchmarks/peers/process_status.h"

namespace tune = muster::tune;

namespace {

struct Options {
  std::string which;
  int64_t trials = 0, threads = 1;
  std::string storage;
  bool durable = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--trials")
      options.trials = std::stoll(value), ++i;
    else if (word == "--threads")
      options.threads = std::stoll(value), ++i;
    else if (word == "--storage")
      options.storage = value, ++i;
    else if (word == "--durable")
      options.durable = true;
    else
      options.which = word;
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const int reports = options.which == "reports" ? 20 : 1;
  const auto train = [reports](tune::TrialHandle& trial) {
    const double lr = trial.config["lr"].as_double();
    for (int i = 0; i < reports; ++i)
      if (trial.report({{"loss", lr}}) != tune::Action::kContinue) return;
  };
  std::ofstream("/proc/self/clear_refs") << 5;  // the peak starts again from here
  const double before = status_mib("VmRSS");
  const auto start = std::chrono::steady_clock::now();
  const auto result = tune::run(train,
                                {.config = {{"lr", tune::loguniform(1e-4, 1e-1)},
                                            {"l1", tune::randint(2, 9)},
                                            {"batch_size", tune::choice({2, 4, 8, 16})}},
                                 .metric = "loss",
                                 .mode = "min",
                                 .num_samples = options.trials,
                                 .resources_per_trial = {.cpu = 0.001},  // as many as wanted
                                 .max_concurrent_trials = options.threads,
                                 .storage = options.storage,
                                 .durable = options.durable});
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  int64_t reported = 0;
  for (const tune::Trial& trial : result.trials) reported += trial.reports;
  if (reported != options.trials * reports) {
    std::fprintf(stderr, "tune_overhead: %lld reports\n", static_cast<long long>(reported));
    return 1;
  }
  std::printf(
      "{\"seconds\": %.6f, \"rss_mib\": %.3f}\n", seconds.count(), status_mib("VmHWM") - before);
}
