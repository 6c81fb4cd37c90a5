// Writes and reads studies for test_tune_storage.py.
//
//     tune_storage_twin write FILE < study.json     {"name", "metric", "mode", "scope", "space",
//                                                    "trials": [{"params", "reports", "state"}]}
//     tune_storage_twin read FILE STUDY             our trials and Optuna's, as `muster study show`
//     tune_storage_twin tensorboard|ray FILE STUDY FOLDER
#include <iostream>
#include <iterator>
#include <map>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/storage/storage.h"
#include "muster/tune/views/export.h"
#include "muster/tune/views/ray_files.h"
#include "muster/tune/views/tensorboard_trials.h"

#include "tests/tune/golden_values.h"

namespace {

using namespace muster;
using namespace muster::tune;
using test::number_of;

Space space_of(const Json& json) {
  std::vector<Parameter> parameters;
  for (const auto& [name, domain] : json.items()) {
    parameters.push_back({name,
                          domain.is_string() ? Domain::parse(domain.get<std::string>(), name)
                                             : Domain(value_from(domain, name)),
                          ""});
  }
  return Space(std::move(parameters));
}

class Writer {
 public:
  Writer(const std::filesystem::path& file, const Json& study) : space_(space_of(study["space"])) {
    Json description = study;
    description.erase("trials");
    description["space"] = space_.description();
    storage_ = open_storage(file, space_, description);
    for (const Event& event : storage_->events()) {
      next_id_ = event.id + 1;
      if (event.trial >= next_trial_) next_trial_ = event.trial + 1;
    }
  }

  void write(const Json& trial) {
    TrialAdded added;
    std::map<std::string, Value> values;
    for (const auto& [name, value] : trial["params"].items())
      values.emplace(name, value_from(value, name));
    added.point = space_.draw(space_.point_of(values), 1, next_trial_);
    added.values = space_.resolve(added.point);
    put(added);
    put(AttemptStarted{});
    for (const auto& [step, metrics] : trial["reports"].items()) {
      Reported reported;
      reported.t = reported.report.sequence = std::stoll(step);
      for (const auto& [name, value] : metrics.items())
        reported.report.metrics.emplace_back(name, number_of(value));
      put(reported);
    }
    AttemptEnded ended;
    const std::string state = trial["state"];
    ended.then = state == "COMPLETE" ? TrialState::kComplete
                 : state == "PRUNED" ? TrialState::kPruned
                                     : TrialState::kFailed;
    ended.message = concat("why ", next_trial_, " ended: \"ü\"");
    if (state != "RUNNING") put(ended);
    storage_->append(batch_);
    batch_.clear();
    ++next_trial_;
  }

 private:
  template <class What>
  void put(What what) {
    batch_.push_back({.id = next_id_,
                      .time_s = 1.7e9 + 0.125 * double(next_id_),
                      .trial = next_trial_,
                      .what = what});
    ++next_id_;
  }

  Space space_;
  std::unique_ptr<Storage> storage_;
  std::vector<Event> batch_;
  int64_t next_id_ = 1, next_trial_ = 0;
};

void write(const std::filesystem::path& file) {
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  const Json study = parse_json(text, "stdin");
  Writer writer(file, study);
  for (const Json& trial : study["trials"]) writer.write(trial);
}

void read(const std::string& command,
          const std::filesystem::path& file,
          const char* name,
          const char* folder) {
  const StudySummary summary = find_study(file, name);
  const auto foreign = read_foreign_trials(file, name);
  const StudyFacts facts = facts_of(summary, foreign);
  const auto events = read_events(file, name);
  const auto trials = histories(events, facts);
  if (command == "tensorboard") return write_tensorboard(folder, trials, facts);
  if (command == "ray")
    return write_ray_files(folder, trials, facts, {.hostname = "h", .node_ip = "::1", .pid = 7});
  std::cout << json_text(to_json(histories(events, foreign, facts), facts)) << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string command = argc > 2 ? argv[1] : "";
    if (command == "write") write(argv[2]);
    if (command != "write") read(command, argv[2], argv[3], argc > 4 ? argv[4] : "");
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
