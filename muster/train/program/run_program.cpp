#include "muster/train/program/run_program.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <ostream>
#include <string_view>
#include <system_error>
#include <thread>

#include <signal.h>
#include <torch/version.h>

#include "muster/base/error.h"
#include "muster/base/host.h"
#include "muster/base/local_time.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
#include "muster/base/version.h"
#include "muster/distributed/meet/check_backend.h"
#include "muster/distributed/meet/store.h"
#include "muster/program/line/said.h"
#include "muster/program/line/shell_word.h"
#include "muster/train/device/try_devices.h"
#include "muster/train/loop/alike_on_ranks.h"
#include "muster/train/loop/memory_estimate.h"
#include "muster/train/loop/start_checks.h"
#include "muster/train/plan/option_infos.h"
#include "muster/train/plan/placement.h"
#include "muster/train/program/as_rank.h"
#include "muster/train/program/end_with.h"
#include "muster/train/program/layer_summary.h"
#include "muster/train/program/run_status.h"
#include "muster/train/program/stop_signals.h"
#include "muster/train/program/trial.h"
#include "muster/train/progress/step_timeline.h"
#include "muster/train/record/run_files.h"
#include "muster/train/replicas/strategy.h"

namespace muster::train {
namespace {

namespace fs = std::filesystem;

void survive_writes() {
  ::signal(SIGXFSZ, SIG_IGN);  // a file size limit is reported like a full disk, not by death
  // A reader of our progress or output that went away is no reason to die.
  ::signal(SIGPIPE, SIG_IGN);  // NOLINT
}

/// The folder that this run writes to, if it is there or named; else it gets a fresh one.
std::optional<fs::path> named_output(const RunFlags& flags) {
  if (!flags.output.empty()) return flags.output;
  // What lies in the current folder is nobody's run unless it is named.
  if (flags.resume.empty()) return std::nullopt;
  if (fs::exists(flags.resume / "state.json")) return run_of(flags.resume);
  if (fs::exists(flags.resume / "latest")) return flags.resume;
  return std::nullopt;
}

/// Rank 0 owns a folder that is named before it reads there: nobody else writes into it from then
/// on. Of a run that is there a plan that is only shown reads: it needs neither the folder for itself nor
/// leave to write.
std::unique_ptr<RunFolder> own_folder(const RunFlags& flags, bool is_owner) {
  if (flags.resume == "auto" && flags.output.empty()) {
    throw usage_error({.refused = "--resume auto",
                       .rule = "it goes on with what --output holds, so --output is named too"});
  }
  std::unique_ptr<RunFolder> owned;
  const auto output = named_output(flags);
  const bool only_reads = flags.explain && output && fs::exists(*output / "latest");
  if (output && is_owner && !only_reads) owned = std::make_unique<RunFolder>(*output);
  return owned;
}

FoundCheckpoint find_resumed(const RunFlags& flags) {
  if (flags.resume.empty()) return {};
  if (flags.resume == "auto") return find_whole(flags.output);
  return {.checkpoint = load_checkpoint(flags.resume)};
}

/// A folder that is gone with this.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string path = (fs::temp_directory_path() / "muster-fast-dev-run-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) {
      throw environment_error({.refused = concat("folder ", path, " of --fast-dev-run"),
                               .rule = errno_text(errno),
                               .hint = "name another place with TMPDIR"});
    }
    path_ = path;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Nothing is kept of it: it has no folder to go on in, and none that is named.
void make_fast_dev_run(RunFlags& flags) {
  if (!flags.resume.empty()) {
    throw usage_error({.refused = "--fast-dev-run with --resume",
                       .rule = "it is a run of its own, of one step",
                       .hint = "leave one of the two away"});
  }
  flags.output.clear();
}

TraceOptions trace_options(const RunFlags& flags) {
  TraceOptions trace{.file = flags.trace};
  if (!flags.trace_steps) return trace;
  if (flags.trace.empty()) {
    throw usage_error({.refused = "--trace-steps",
                       .rule = "it is for the file of --trace, which is not named",
                       .value = std::to_string(*flags.trace_steps)});
  }
  trace.steps = *flags.trace_steps;
  return trace;
}

void note_start(const FitPlan& plan,
                const distributed::ProcessGroup& group,
                const fs::path& output,
                const std::optional<Checkpoint>& resume,
                const std::function<void(const std::string&)>& say) {
  const bool in_threads = plan.threads > 0;
  say(concat(plan.title,
             ", ",
             plan.options.strategy,
             " on ",
             plan.world_size,
             plan.world_size == 1 ? " rank" : " ranks",
             in_threads            ? " (threads)"
             : plan.world_size > 1 ? concat(" (", group.backend(), ")")
                                   : "",
             plan.devices[0].is_cpu() ? "" : " on " + names_of(plan.machine_devices),
             ", batch ",
             plan.options.batch_size,
             ", ",
             plan.options.workers,
             plan.options.workers == 1 ? " loader worker" : " loader workers",
             " per rank; output ",
             output.string()));
  if (plan.world_size > 1)
    say(concat("process group ", group.backend(), ": ", group.backend_reason()));
  for (const std::string& remark : plan.remarks) say(remark);
  if (!resume) return;
  say(concat("resuming after step ", resume->position.step));
  const LearningRate& lr = plan.options.lr;
  if (!lr.found_by.empty())
    say(concat(
        "learning rate ", shortest(plan.lr), ", as --lr ", lr.found_by, " found it at the start"));
}

/// What kOfOnePlace say, by name.
std::map<std::string_view, std::string> place_options(const FitOptions& options) {
  std::map<std::string_view, std::string> texts;
  visit_options(options, [&](const OptionInfo& info, const auto& value) {
    if constexpr (requires(std::ostream & out) { out << value; }) {
      if (std::ranges::find(kOfOnePlace, info.name) != std::end(kOfOnePlace))
        texts[info.name] = concat(value);
    }
  });
  return texts;
}

/// Those that are not as they are when nobody says them, as words behind a command.
std::string place_flags(const FitOptions& options) {
  auto defaults = place_options({});
  std::string words;
  for (const auto& [name, text] : place_options(options))
    if (text != defaults[name])
      words += concat(' ', program::flag_of_option(name), ' ', program::shell_word(text));
  return words;
}

/// Another machine may have been told to train, and would wait for this one; of those of this machine
/// the launcher says that they have ended.
void tell_other_machines(const std::optional<RankEnv>& env) {
  constexpr std::chrono::seconds kPatience(3);
  if (!env || env->group_world_size == 1) return;
  distributed::attend_as(*env, distributed::program_name() + " train --explain", kPatience);
}

/// Why the run could not go on now where a plan of it is only shown; empty if it could.
std::string hindrance(const fs::path& output) {
  try {
    const RunFolder own(output);
    return "";
  } catch (const Error& error) {
    const std::string text = error.what();
    return first_line(text);  // without the hint
  }
}

/// What the run that goes on has found out of its strategy's parts, for --explain.
void explain_stages(const std::optional<Checkpoint>& resume, FitPlan& told) {
  const StrategyEntry& entry = strategies().at(told.strategy_name);
  if (!resume || entry.lines_of_record == nullptr) return;
  const auto lines = entry.lines_of_record(resume->loop.value(kStrategyKey, Json()));
  for (const std::string& line : lines) told.explained += explained_line("so far", line);
  if (!lines.empty()) told.record["so_far"] = lines;
}

}  // namespace

ProgramEnd run_program(Program& program,
                       const RunFlags& said,
                       const ProgramVoice& voice,
                       std::vector<std::pair<std::string, std::string>> about,
                       const tensor::DeviceKinds& kinds) {
  survive_writes();
  RunFlags flags = said;
  const TraceOptions trace = trace_options(flags);
  const bool is_kept = !program.options().fast_dev_run;
  if (is_kept) {
    resolve_trial(flags.output, flags.resume);
  } else {
    make_fast_dev_run(flags);
  }
  const std::optional<RankEnv> env = rank_env_from();
  const bool first = !env || env->rank == 0;
  std::optional<ScratchFolder> scratch;  // before what holds it
  auto owned = own_folder(flags, first);
  const FoundCheckpoint found = find_resumed(flags);
  const std::optional<Checkpoint>& resume = found.checkpoint;
  if (resume) program.take_over(resume->plan);
  const FitPlan plan =
      program.plan({.world_size = env ? env->world_size : 1,
                    .local_world_size = env ? env->local_world_size : 1,
                    .cores = std::max<int64_t>(1, std::thread::hardware_concurrency()),
                    .intraop_threads = 0,
                    .local_rank = env ? env->local_rank : 0,
                    .kinds = kinds},
                   resume.has_value());
  ProgramEnd end{.is_explained = flags.explain,
                 .is_first = first,
                 .is_kept = is_kept,
                 .place_flags = place_flags(program.options())};
  if (flags.explain) {
    if (first) {
      if (const auto output = named_output(flags))
        RunFolder::check(*output, resume ? &*resume : nullptr);
      check_trace(trace, /*leaves_nothing=*/true);
      if (!is_kept) scratch.emplace();
      distributed::check_backend(plan.options.backend, env ? env->world_size : 1);
      std::unique_ptr<Task> task = check_start(program.task(resume.has_value()), plan, resume);
      FitPlan told = plan;
      const LayerSummary layers = layer_summary(*task->module());
      told.explained += explained_layers(layers);
      told.record.update(to_json(layers));
      const std::string memory = memory_outlook(std::move(task), program.data(), plan);
      told.explained += explained_line("memory", memory);
      told.record["memory"] = memory;
      explain_stages(resume, told);
      if (const auto output = named_output(flags); output && !owned) {
        if (const std::string why = hindrance(*output); !why.empty()) {
          told.explained += explained_line("refused now", why);
          told.record["refused_now"] = why;
        }
      }
      voice.explain(told);
    }
    tell_other_machines(env);
    return end;
  }
  // Before the ranks meet: whose device is not to be had lets nobody wait.
  try_devices(plan.devices,
              env && env->world_size > 1 ? std::optional<int>(env->rank) : std::nullopt);
  if (owned) owned->check(resume ? &*resume : nullptr);
  if (first) check_trace(trace);
  if (first && !is_kept) owned = std::make_unique<RunFolder>(scratch.emplace().path());
  if (first && !owned) owned = RunFolder::make_fresh(fs::path("runs") / program.default_output());

  // Ranks that are threads have a group of their own; this process alone settles the rest.
  const distributed::ProcessGroup group = distributed::init_process_group(
      group_options(plan.options.backend, plan.devices[0], "train", env, voice.say), env);
  watch_stop_signals();  // from here on a signal means: save and stop; before, there is nothing to save
  // Told to all, so that they name the same folder in errors.
  end.output = group.all_gather_text(owned ? owned->path().string() : "")[0];
  check_same_trace(trace, group);
  if (first && !found.remark.empty()) voice.say(found.remark);
  if (first) note_start(plan, group, end.output, resume, voice.say);
  FitCallbacks callbacks{
      .progress = voice.progress,
      .note = voice.note,
      .stop_requested = [] { return stop_signalled(); },
      .folder_ready = [&] { program.folder_ready(end.output, resume.has_value()); },
      .trace = trace,
      .about = std::move(about)};
  TrainAsTrial trial(voice.note);
  if (first && is_kept) trial.attach(callbacks);
  FitData data = program.data();
  TaskMaker task = program.task(resume.has_value());
  program.add_hooks(callbacks);
  RunStatus status(distributed::program_name() + " train", plan, env);
  status.attach(callbacks);
  if (const std::string why = status.why_not(); first && !why.empty()) voice.say(why);
  const FitRequest run{.task = std::move(task),
                       .data = std::move(data),
                       .plan = plan,
                       .output = end.output,
                       .resume = resume,
                       .callbacks = callbacks,
                       .owned = owned.get()};
  end.result = plan.threads > 0 ? fit_on_threads(run, overdue_end(voice)) : fit(run, group);
  if (voice.finish_progress) voice.finish_progress();
  return end;
}

std::vector<std::pair<std::string, std::string>> run_facts(const std::string& command) {
  return {{"command", command},
          {"started", local_time_now("%Y-%m-%d %H:%M:%S %Z")},
          {"host", host_name()},
          {"folder", fs::current_path().string()},
          {"version", concat("muster ", version(), ", LibTorch " TORCH_VERSION)}};
}

void print_plan(const FitPlan& plan, bool json, std::ostream& out) {
  if (!json) {
    out << plan.explained << std::flush;
    return;
  }
  Json object = plan.record;
  object["title"] = plan.title;
  object["machine_devices"] = Json::array();
  for (const c10::Device& device : plan.machine_devices)
    object["machine_devices"].push_back(device.str());
  object["remarks"] = plan.remarks;
  out << json_text(object) << '\n' << std::flush;
}

}  // namespace muster::train
