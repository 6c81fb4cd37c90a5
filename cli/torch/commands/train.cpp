// `muster train`: trains a model of the zoo, alone or as one rank of a job.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <ostream>
#include <thread>

#include <c10/util/Exception.h>
#include <signal.h>
#include <torch/version.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/host.h"
#include "muster/base/json.h"
#include "muster/base/local_time.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
#include "muster/train/classifier/trainer.h"

#include "cli/command.h"
#include "cli/config/config_file.h"
#include "cli/line/parse.h"
#include "cli/line/shell_word.h"
#include "cli/line/train_flags.h"
#include "cli/screen/live_bar.h"
#include "cli/torch/train_as_trial.h"

namespace muster::cli {
namespace {

namespace fs = std::filesystem;
using Options = TrainFlags;

// Set by the first SIGINT or SIGTERM, which also puts the default action back: the second one
// kills.
std::atomic<bool> stop_wanted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "it is written by a signal handler");

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { stop_wanted = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::signal(SIGXFSZ, SIG_IGN);  // a file size limit is reported like a full disk, not by death
  // A reader of our progress or output that went away is no reason to die.
  ::signal(SIGPIPE, SIG_IGN);  // NOLINT
}

/// The options given on the command line, by the names they have in a plan: "--batch-size" ->
/// "batch_size".
std::vector<std::string> said(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0 || option->get_lnames().empty()) continue;
    std::string name = option->get_lnames()[0];
    std::replace(name.begin(), name.end(), '-', '_');
    names.push_back(name);
  }
  return names;
}

/// What was said about the training itself, as words: what config.toml reproduces the run from.
std::vector<std::string> said_words(const CLI::App& app) {
  std::vector<std::string> words;
  for (const std::string& name : said(app)) {
    if (name == "output" || name == "resume" || name == "config" || name == "explain" ||
        name == "json" || name == "trace" || name == "trace_steps")
      continue;
    const std::string flag = flag_of_option(name);
    const CLI::Option& option = *app.get_option(flag);
    const bool is_switch = option.get_items_expected_max() == 0;
    words.push_back(is_switch ? flag : concat(flag, '=', option.results().front()));
  }
  return words;
}

/// The folder that this run writes to, if it is there or named; else it gets a fresh one.
std::optional<fs::path> named_output(const Options& options) {
  if (!options.output.empty()) return options.output;
  // What lies in the current folder is nobody's run unless it is named.
  if (options.resume.empty()) return std::nullopt;
  if (fs::exists(options.resume / "state.json")) return train::run_of(options.resume);
  if (fs::exists(options.resume / "latest")) return options.resume;
  return std::nullopt;
}

/// Rank 0 owns a folder that is named before it reads there: nobody else writes into it from then
/// on. `--resume auto` becomes the folder to go on with, or nothing.
std::unique_ptr<train::RunFolder> resolve_resume(Options& options, bool is_owner) {
  const bool is_auto = options.resume == "auto";
  if (is_auto && options.output.empty()) {
    throw usage_error({.refused = "--resume auto",
                       .rule = "it goes on with what --output holds, so --output is named too"});
  }
  std::unique_ptr<train::RunFolder> owned;
  if (const auto output = named_output(options); output && is_owner)
    owned = std::make_unique<train::RunFolder>(*output);
  if (is_auto) options.resume = fs::exists(options.output / "latest") ? options.output : fs::path();
  return owned;
}

/// runs/MODEL-DATA, or that with a number.
std::unique_ptr<train::RunFolder> fresh_output(const train::TrainOptions& options) {
  return train::RunFolder::make_fresh(
      fs::path("runs") /
      concat(train::split_spec(options.model).first, '-', train::split_spec(options.data).first));
}

/// config.toml: what was said; of a resumed run over what was said when it began.
void write_config(const fs::path& file,
                  bool is_resumed,
                  const CLI::App& app,
                  std::span<const ConfigKey> keys,
                  const std::function<void(const std::string&)>& note) {
  std::vector<std::string> words;
  try {
    if (is_resumed && fs::exists(file)) words = config_arguments(file, keys);
  } catch (const Error& error) {
    return note(concat(error.text().refused, ": the file stays as it is"));
  }
  const std::vector<std::string> now = said_words(app);
  const auto flag = [](const std::string& word) { return word.substr(0, word.find('=')); };
  std::erase_if(words, [&](const std::string& word) {
    return std::any_of(now.begin(), now.end(), [&](const std::string& other) {
      return flag(other) == flag(word);
    });
  });
  words.insert(words.end(), now.begin(), now.end());
  write_config_toml(file, words, keys);
}

/// Sends progress to the launcher, or draws it where there is none.
class Reporter {
 public:
  Reporter(Console& console, bool under_launcher) {
    const auto fd = process_environment(kProgressFdEnv);
    if (fd) progress_fd_ = static_cast<int>(to_int(*fd).value_or(-1));
    if (!under_launcher) bar_ = std::make_unique<LiveBar>(console);
    console_ = &console;
  }

  void progress(const track::ProgressEvent& event) {
    if (bar_) bar_->update(event);
    if (progress_fd_ < 0) return;
    const std::string line = track::to_json_line(event);
    // A launcher that reads no more must not stop the training.
    if (::write(progress_fd_, line.data(), line.size()) < 0 && errno == EPIPE) progress_fd_ = -1;
  }

  void note(const std::string& line) {
    if (bar_) {
      bar_->print_err(line);
    } else {
      console_->err() << line << '\n' << std::flush;
    }
  }

  void finish() {
    if (bar_) bar_->finish();
    bar_.reset();
  }

 private:
  Console* console_;
  std::unique_ptr<LiveBar> bar_;
  int progress_fd_ = -1;
};

int report_result(const train::FitResult& result,
                  const fs::path& output,
                  bool json,
                  Console& console) {
  if (result.interrupted) {
    console.note(concat("interrupted after step ",
                        result.steps,
                        "; saved in ",
                        result.checkpoint.string(),
                        "\nhint: go on with `muster train --resume ",
                        output.string(),
                        "`"));
    return kInterrupted;
  }
  if (json) {
    Json object = {{"test_accuracy", result.test.metrics["accuracy"]},
                   {"test_loss", result.test.metrics["loss"]},
                   {"steps", result.steps},
                   {"seconds", result.seconds},
                   {"output", output.string()},
                   {"checkpoint", result.checkpoint.string()}};
    if (result.skipped_steps) object["skipped_steps"] = *result.skipped_steps;
    console.out() << object.dump() << '\n' << std::flush;
  } else {
    console.note(concat("finished ",
                        result.steps,
                        " steps",
                        result.skipped_steps.value_or(0) > 0
                            ? concat(" (", *result.skipped_steps, " left out because of overflow)")
                            : "",
                        " in ",
                        human_duration(result.seconds),
                        "; results in ",
                        output.string(),
                        ", curves in ",
                        (output / "index.html").string()));
    console.out() << "test accuracy " << fixed(result.test.metrics["accuracy"], 4) << '\n'
                  << std::flush;
  }
  return kDone;
}

/// Where the numbers of a run come from, for its page.
std::vector<std::pair<std::string, std::string>> facts_of(std::span<const std::string> args) {
  std::string command = "muster train";
  for (const std::string& word : args) command += ' ' + shell_word(word);
  return {{"command", command},
          {"started", local_time_now("%Y-%m-%d %H:%M:%S %Z")},
          {"host", host_name()},
          {"folder", fs::current_path().string()},
          {"version", "muster " MUSTER_VERSION ", LibTorch " TORCH_VERSION}};
}

int train_command(std::span<const std::string> args,
                  Console& console,
                  std::vector<ConfigPlace>& places) {
  Options options;
  const auto app = train_app(options);
  const std::vector<ConfigKey> keys = config_keys(*app, train_config_kinds());
  if (const auto over = parse(*app, with_config(args, keys, &places), console)) return *over;
  if (app->get_option("--devices")->count() > 0 && options.train.devices < 1) {
    throw usage_error({.refused = "--devices",
                       .rule = "at least 1",
                       .value = std::to_string(options.train.devices)});
  }
  const train::TraceOptions trace{.file = options.trace_file, .steps = options.trace_steps};
  resolve_trial(options.output, options.resume);

  const std::optional<RankEnv> env = rank_env_from();
  const bool first = !env || env->rank == 0;
  auto owned = resolve_resume(options, first && !options.explain);
  std::optional<train::Checkpoint> resume;
  if (!options.resume.empty()) {
    resume = train::load_checkpoint(options.resume);
    train::take_over(resume->plan, said(*app), options.train);
  }
  const train::Surroundings around{
      .world_size = env ? env->world_size : 1,
      .local_world_size = env ? env->local_world_size : 1,
      .cores = std::max<int64_t>(1, std::thread::hardware_concurrency())};
  const train::TrainData data = train::open_data(options.train.data, options.train.data_dir);
  const train::TrainPlan plan = train::resolve(options.train, around, *data.train, *data.test);
  if (!resume) train::check_weights(plan);
  if (options.explain) {
    if (first) console.out() << train::explain(plan) << std::flush;
    return kDone;
  }
  if (owned) owned->check(resume ? &*resume : nullptr);
  if (first) train::check_trace(trace);
  if (first && !owned) owned = fresh_output(options.train);

  // Ranks that are threads have a group of their own; this process alone settles the rest.
  const bool in_threads = plan.options.devices > 0;
  const distributed::ProcessGroup group =
      distributed::init_process_group({.backend = options.train.backend}, env);
  watch_signals();  // from here on a signal means: save and stop; before, there is nothing to save
  // Told to all, so that they name the same folder in errors.
  const fs::path output = group.all_gather_text(owned ? owned->path().string() : "")[0];
  if (first) {
    console.note(concat(plan.model_name,
                        " on ",
                        plan.data_name,
                        ", ",
                        plan.options.strategy,
                        " on ",
                        plan.world_size,
                        plan.world_size == 1 ? " rank" : " ranks",
                        in_threads            ? " (threads)"
                        : plan.world_size > 1 ? concat(" (", group.backend(), ")")
                                              : "",
                        ", batch ",
                        plan.options.batch_size,
                        ", ",
                        plan.options.workers,
                        plan.options.workers == 1 ? " loader worker" : " loader workers",
                        " per rank; output ",
                        output.string()));
    if (plan.world_size > 1)
      console.note(concat("process group ", group.backend(), ": ", group.backend_reason()));
    for (const std::string& remark : plan.remarks) console.note(remark);
    if (resume) console.note(concat("resuming after step ", resume->position.step));
  }
  Reporter reporter(console, env.has_value());
  const auto note = [&](const std::string& line) { reporter.note(line); };
  train::FitCallbacks callbacks{
      .progress = [&](const track::ProgressEvent& event) { reporter.progress(event); },
      .note = note,
      .stop_requested = [] { return stop_wanted.load(); },
      .folder_ready =
          [&] { write_config(output / "config.toml", resume.has_value(), *app, keys, note); },
      .trace = trace,
      .about = facts_of(args)};
  TrainAsTrial trial(note);
  if (first) trial.attach(callbacks);
  const train::FitResult result =
      in_threads ? train::train_on_threads(plan, data, output, resume, callbacks, owned.get())
                 : train::train(plan, data, group, output, resume, callbacks, owned.get());
  reporter.finish();
  if (!first) return result.interrupted ? kInterrupted : kDone;
  return report_result(result, output, options.json, console);
}

int run_train_command(std::span<const std::string> args, Console& console) {
  std::vector<ConfigPlace> places;
  try {
    return train_command(args, console, places);
  } catch (const c10::Error& error) {
    // Without its forty lines of addresses.
    throw environment_error({.refused = concat("LibTorch: ", error.what_without_backtrace())});
  } catch (const Error& error) {
    throw placed(error, places, train_config_owners());
  } catch (const std::exception& error) {
    const std::string text = error.what();
    if (text.find("could not create a primitive") == text.npos) throw;
    throw environment_error({.refused = "oneDNN: " + text,
                             .hint =
                                 "on a virtual machine set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16; "
                                 "else take another --precision (lstm has no float16)"});
  }
}

}  // namespace

extern constinit const CommandEntry train_entry{
    "train", "train a model; alone, or as one rank under `muster run`", &run_train_command};

}  // namespace muster::cli
