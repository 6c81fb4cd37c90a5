// How fast a study's storage is: trials of 20 reports, some at once, their reports of one step in
// one append() as the tuner makes it, each kept before its answer.
//
//     tune_storage FILE [TRIALS [AT_ONCE [REPORTS [durable]]]]
//
// Prints one JSON object: trials and events per second, microseconds per append, its longest in
// milliseconds, seconds for closing and for reading it all again, bytes per trial.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "muster/base/json.h"
#include "muster/tune/storage/storage.h"

namespace {

using namespace muster;
using namespace muster::tune;

double seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class Load {
 public:
  Load(Storage& storage, const Space& space, int64_t at_once, int64_t reports)
      : storage_(storage), space_(space), at_once_(at_once), reports_(reports) {}

  /// A wave of trials from their start to their end.
  void wave(int64_t first) {
    each(first, [&](int64_t trial) { add(trial); });
    for (int64_t step = 1; step <= reports_; ++step)
      each(first, [&](int64_t trial) { put(trial, report(trial, step)); });
    each(first, [&](int64_t trial) { put(trial, AttemptEnded{.message = "max_t 20 reached"}); });
  }

  int64_t appends() const { return appends_; }
  int64_t events() const { return next_id_ - 1; }
  double longest_s() const { return longest_s_; }

 private:
  template <class Make>
  void each(int64_t first, Make make) {
    for (int64_t trial = first; trial < first + at_once_; ++trial) make(trial);
    const double start = seconds();
    storage_.append(batch_);
    longest_s_ = std::max(longest_s_, seconds() - start);
    batch_.clear();
    ++appends_;
  }

  template <class What>
  void put(int64_t trial, What what) {
    batch_.push_back({.id = next_id_++, .time_s = seconds(), .trial = trial, .what = what});
  }

  void add(int64_t trial) {
    TrialAdded added;
    added.point = space_.draw({}, 1, trial);
    added.values = space_.resolve(added.point);
    put(trial, added);
    put(trial, AttemptStarted{});
  }

  Reported report(int64_t trial, int64_t step) const {
    const double loss = 1.0 / static_cast<double>(step) + 1e-6 * static_cast<double>(trial);
    Reported reported;
    reported.t = reported.report.sequence = step;
    reported.report.step = step;
    reported.report.metrics = {{"loss", loss}, {"accuracy", 1 - loss / 2}};
    return reported;
  }

  Storage& storage_;
  const Space& space_;
  int64_t at_once_, reports_, next_id_ = 1, appends_ = 0;
  double longest_s_ = 0;
  std::vector<Event> batch_;
};

int64_t number(int argc, char** argv, int index, int64_t otherwise) {
  return argc > index ? std::atoll(argv[index]) : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path file = argc > 1 ? argv[1] : "bench.db";
  const int64_t trials = number(argc, argv, 2, 8000), at_once = number(argc, argv, 3, 16);
  const int64_t reports = number(argc, argv, 4, 20);
  for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(file.string() + end);

  const Space space{{"lr", loguniform(1e-4, 1e-1)},
                    {"l1", sample_from("2 ** randint(2, 9)")},
                    {"batch_size", choice({2, 4, 8, 16})}};
  const Json description = {{"name", "bench"},
                            {"metric", "loss"},
                            {"mode", "min"},
                            {"scope", "last"},
                            {"searcher", "random"},
                            {"space", space.description()}};
  auto storage = open_storage(
      file, space, description, {.durable = argc > 5 && std::string(argv[5]) == "durable"});
  Load load(*storage, space, at_once, reports);
  const double start = seconds();
  for (int64_t first = 0; first < trials; first += at_once) load.wave(first);
  const double spent = seconds() - start;
  storage.reset();
  const double closed = seconds() - start - spent;
  const size_t read = read_events(file, "bench").size();
  const double read_s = seconds() - start - spent - closed;
  if (read != size_t(load.events())) return 1;
  const auto rate = [&](double count) { return static_cast<int64_t>(count / spent); };
  std::cout << json_text(
                   Json{{"trials", trials},
                        {"at_once", at_once},
                        {"reports", reports},
                        {"trials_per_s", rate(double(trials))},
                        {"events_per_s", rate(double(load.events()))},
                        {"us_per_append", spent * 1e6 / double(load.appends())},
                        {"longest_append_ms", load.longest_s() * 1e3},
                        {"close_s", closed},
                        {"read_s", read_s},
                        {"bytes_per_trial", std::filesystem::file_size(file) / uint64_t(trials)}})
            << '\n';
}
