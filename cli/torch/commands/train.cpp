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
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
#include "muster/train/loop/trainer.h"

#include "cli/command.h"
#include "cli/config_file.h"
#include "cli/live_bar.h"
#include "cli/parse.h"
#include "cli/torch/train_as_trial.h"

namespace muster::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExamples =
    "Examples:\n"
    "  muster train --model cnn --data fashion-mnist --epochs 3\n"
    "  muster train --model cnn --strategy dp --devices 2\n"
    "  muster run --nproc-per-node 2 -- muster train --model cnn --output runs/a\n"
    "  muster train --resume runs/a --epochs 10\n"
    "  muster train --model mlp:hidden=256,layers=3 --optimizer adamw --lr 0.001\n"
    "  muster train --config run.toml --seed 2\n"
    "  muster train --data synthetic:samples=2048 --explain\n\n"
    "Under `muster run` or torchrun each process is one rank; the batch size is the\n"
    "global one and is divided by the ranks. The folder given by --output gets\n"
    "config.json, metrics.csv and .jsonl, TensorBoard events, checkpoints/step-N,\n"
    "latest, best, and at the end index.html with the curves.\n"
    "The last line on stdout is the test accuracy.";

constexpr std::string_view kSpecs[] = {
    "model", "data", "strategy", "optimizer", "lr-schedule", "precision"};
constexpr std::string_view kPaths[] = {"data-dir", "weights", "output", "trace"};
constexpr ConfigKinds kConfigKinds{.specs = kSpecs, .paths = kPaths};

struct Options {
  train::TrainOptions train;
  fs::path output;
  fs::path resume;
  fs::path config;
  train::TraceOptions trace;
  bool explain = false;
  bool json = false;
};

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

/// "batch_size" -> "--batch-size".
std::string flag_of(std::string_view name) {
  std::string flag = concat("--", name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

void declare(CLI::App& app, Options& options) {
  train::visit_options(options.train, [&](const train::OptionInfo& info, auto& value) {
    CLI::Option* option = app.add_option(flag_of(info.name), value, std::string(info.help));
    option->type_name(std::string(info.value));
    if (info.show_default) option->capture_default_str();
  });
  app.add_option("--output", options.output, "folder of the run [runs/MODEL-DATA, numbered]")
      ->type_name("DIR");
  app.add_option("--resume",
                 options.resume,
                 "go on with the run in DIR (or one checkpoint); auto: with what --output holds, "
                 "else start")
      ->type_name("DIR");
  app.add_option("--config", options.config, "read flags from a TOML file; flags given here win")
      ->type_name("FILE");
  app.add_option("--trace", options.trace.file, "write a timeline of the steps (Chrome trace)")
      ->type_name("FILE");
  app.add_option("--trace-steps", options.trace.steps, "so many steps, after the first 10 [100]")
      ->type_name("N");
  app.add_flag("--explain", options.explain, "print the resolved plan and stop");
  app.add_flag("--json", options.json, "print the result as one JSON object");
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
    words.push_back(concat(flag_of(name), '=', app.get_option(flag_of(name))->results().front()));
  }
  return words;
}

/// The folder that this run writes to, if it is there or named; else it gets a fresh one.
std::optional<fs::path> named_output(const Options& options) {
  if (!options.output.empty()) return options.output;
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

int report_result(const train::TrainResult& result,
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
    Json object = {{"test_accuracy", result.test.meter.accuracy()},
                   {"test_loss", result.test.meter.loss()},
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
    console.out() << "test accuracy " << fixed(result.test.meter.accuracy(), 4) << '\n'
                  << std::flush;
  }
  return kDone;
}

int train_command(std::span<const std::string> args, Console& console) {
  Options options;
  const auto app = make_app(
      "train", "Train a model on one device, or on many as ranks under `muster run`.", kExamples);
  declare(*app, options);
  const std::vector<ConfigKey> keys = config_keys(*app, kConfigKinds);
  if (const auto over = parse(*app, with_config(args, keys), console)) return *over;
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
  if (first) train::check_trace(options.trace);
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
    if (resume) console.note(concat("resuming after step ", resume->position.step));
  }
  Reporter reporter(console, env.has_value());
  const auto note = [&](const std::string& line) { reporter.note(line); };
  train::TrainCallbacks callbacks{
      .progress = [&](const track::ProgressEvent& event) { reporter.progress(event); },
      .note = note,
      .stop_requested = [] { return stop_wanted.load(); },
      .folder_ready =
          [&] { write_config(output / "config.toml", resume.has_value(), *app, keys, note); },
      .trace = options.trace};
  TrainAsTrial trial(note);
  if (first) trial.attach(callbacks);
  const train::TrainResult result =
      in_threads ? train::train_on_threads(plan, data, output, resume, callbacks, owned.get())
                 : train::train(plan, data, group, output, resume, callbacks, owned.get());
  reporter.finish();
  if (!first) return result.interrupted ? kInterrupted : kDone;
  return report_result(result, output, options.json, console);
}

int run_train_command(std::span<const std::string> args, Console& console) {
  try {
    return train_command(args, console);
  } catch (const c10::Error& error) {
    // Without its forty lines of addresses.
    const std::string text = error.what_without_backtrace();
    const bool one_sample = text.find("Expected more than 1 value per channel") != text.npos;
    throw environment_error(
        {.refused = "LibTorch: " + text,
         .hint = one_sample ? "the last batch of an epoch leaves a rank one sample, too few for "
                              "BatchNorm: take another --batch-size"
                            : ""});
  } catch (const Error&) {
    throw;
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
