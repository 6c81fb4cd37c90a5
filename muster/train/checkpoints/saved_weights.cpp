#include "muster/train/checkpoints/saved_weights.h"

#include <optional>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::train {
namespace fs = std::filesystem;
namespace {

/// "the run has step-8, step-4: take --weights step-8", but for `lost`; empty if it has no other.
std::string other_checkpoints(const fs::path& run, const fs::path& lost) {
  std::vector<std::string> there;
  for (const int64_t step : checkpoint_steps(run)) {
    const fs::path folder = checkpoint_folder(run, step);
    if (folder != lost && fs::exists(folder / "state.json")) there.push_back(concat("step-", step));
  }
  return there.empty() ? ""
                       : concat("the run has ", join(there, ", "), ": take --weights ", there[0]);
}

/// A checkpoint that is named by its step needs no file `latest`, and neither does the best one.
void check_is_run(const fs::path& run, const std::string& which) {
  if (fs::exists(run / "latest") || (which == "best" && fs::exists(run / which))) return;
  const bool names_step = !which.empty() && which != "best" && which != "last" && which != "ema";
  const std::string others = other_checkpoints(run, {});
  if (names_step && !others.empty()) return;
  if (fs::exists(run / "state.json")) {
    const auto owner = run_of(run);
    const std::string name = (run.has_filename() ? run : run.parent_path()).filename().string();
    throw usage_error({.refused = concat(run.string(), " is a checkpoint"),
                       .rule = "the run is named, and which of its weights",
                       .hint = owner ? concat(owner->string(), " --weights ", name)
                                     : concat("RUN --weights ", run.string())});
  }
  throw usage_error({.refused = "no run in " + run.string(),
                     .rule = fs::exists(run) ? "a run's folder has a file `latest`, from its first "
                                               "checkpoint on"
                                             : "there is no such folder",
                     .hint = others});
}

/// The checkpoint that `latest` or `best` names now, and what its state.json says: what changes
/// when the run goes on.
struct Named {
  fs::path folder;  // empty: there is none
  std::string state;

  bool operator==(const Named&) const = default;
};

Named named_by(const fs::path& run, const std::string& name) {
  Named named;
  const std::optional<int64_t> step = step_named_by(run / name);
  if (!step) return named;
  named.folder = checkpoint_folder(run, *step);
  try {
    named.state = read_file(named.folder / "state.json");
  } catch (const Error&) {  // whoever reads the checkpoint says so
  }
  return named;
}

/// What the run's validation and test would be of.
Checkpoint read_scored(const fs::path& folder) {
  Checkpoint trained = read_model(folder);
  return trained.plan.value("ema_decay", 0.0) > 0 ? read_averages(folder) : std::move(trained);
}

/// Its weights can be read; averages it may have or not.
bool is_whole(const fs::path& checkpoint) try {
  read_model(checkpoint);
  return true;
} catch (const Error&) {
  return false;
}

using Reader = Checkpoint (*)(const fs::path& folder);

Checkpoint read_named(const fs::path& run, const std::string& name, Reader read) {
  for (;;) {
    const Named named = named_by(run, name);
    if (named.folder.empty()) {
      throw usage_error(
          {.refused = concat("--weights ", name == "latest" ? "last" : name),
           .rule = concat("the file ", (run / name).string(), " names a folder step-N"),
           .value = fs::exists(run / name) ? concat('"', trim(read_file(run / name)), '"')
                                           : "no such file",
           .hint = name == "best" ? "no epoch was the best so far: take --weights last"
                                  : other_checkpoints(run, {})});
    }
    try {
      return read(named.folder);
    } catch (const Error& error) {
      // Else the run has removed or replaced it meanwhile.
      if (named_by(run, name) != named) continue;
      if (is_whole(named.folder)) throw;
      ErrorText text = error.text();
      if (std::string others = other_checkpoints(run, named.folder); !others.empty())
        text.hint = std::move(others);
      throw Error(error.kind(), text);
    }
  }
}

fs::path checkpoint_at(const fs::path& run, const std::string& which) {
  std::error_code none;  // it may be longer than any name
  if (fs::exists(fs::path(which) / "state.json", none)) return which;
  const fs::path own = run / "checkpoints" / which;
  if (fs::is_directory(own, none)) return own;
  std::vector<std::string> steps;
  for (const int64_t step : checkpoint_steps(run)) steps.push_back(concat("step-", step));
  throw usage_error({.refused = "--weights " + which,
                     .rule = "last, ema, best, or a checkpoint of the run",
                     .hint = steps.empty() ? "" : "it has " + join(steps, ", ")});
}

}  // namespace

Checkpoint read_weights(const fs::path& run, const std::string& which) {
  constexpr std::string_view kOfAverages = ":ema";
  check_is_run(run, which);
  if (which == "best") return read_named(run, "best", read_scored);
  if (which == "last") return read_named(run, "latest", read_model);
  if (which == "ema") return read_named(run, "latest", read_averages);
  if (which.ends_with(kOfAverages))
    return read_averages(checkpoint_at(run, which.substr(0, which.size() - kOfAverages.size())));
  if (!which.empty()) return read_model(checkpoint_at(run, which));
  Checkpoint last = read_named(run, "latest", read_scored);
  const bool tests_best = last.best_step >= 0 && last.plan.value("test_weights", "last") == "best";
  return tests_best && last.best_step != last.position.step ? read_named(run, "best", read_scored)
                                                            : std::move(last);
}

}  // namespace muster::train
