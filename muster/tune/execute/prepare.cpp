#include "muster/tune/execute/prepare.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/rank_env.h"
#include "muster/base/rank_variables.h"
#include "muster/base/text.h"
#include "muster/launch/process/program.h"
#include "muster/tune/space/command_template.h"
#include "muster/tune/trial/protocol.h"

namespace muster::tune {
namespace {

namespace fs = std::filesystem;

constexpr std::array kNames{kTrialIdEnv,
                            kAttemptEnv,
                            kStudyEnv,
                            kTunerAddrEnv,
                            kTunerTokenEnv,
                            kParamsFileEnv,
                            kCheckpointDirEnv,
                            kResumeFromEnv,
                            kReportFileEnv};

// A socket's path has at most 107 bytes, and names go behind the folder's.
constexpr size_t kLongestFolder = 80;

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return;
  throw environment_error({.refused = "cannot create the trial's folder " + folder.string(),
                           .rule = errno_text(error.value()),
                           .hint = "free some space, or choose another storage"});
}

/// PATH is the study's, if it sets one. A relative program is one of the working folder.
fs::path look_for_program(const StudySpec& spec, const LocalTrialStart& start) {
  if (!fs::is_directory(start.working_folder))
    throw usage_error({.refused = "no such folder: " + start.working_folder.string()});
  const std::string& name = start.argv.at(0);
  if (name.find('/') != std::string::npos)
    return launch::find_program((start.working_folder / name).lexically_normal().string(), "");
  const auto path = spec.environment.find("PATH");
  return launch::find_program(
      name,
      path == spec.environment.end() ? process_environment("PATH").value_or("") : path->second);
}

fs::path find_program_of(const StudySpec& spec, const LocalTrialStart& start) {
  try {
    return look_for_program(spec, start);
  } catch (const Error& error) {
    if (!start.argv[0].ends_with(".py")) throw;
    throw usage_error({.refused = error.text().refused,
                       .rule = error.text().rule,
                       .hint = concat("command = [\"python3\", \"", start.argv[0], "\", …]")});
  }
}

constexpr const char* kParamsFile = "params.json";
constexpr const char* kOwnerFile = ".study";  // in a trial's folder: whose it is

/// Without fsync: the trial does not outlive a power cut either.
void write_now(const fs::path& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit(/*sync=*/false);
}

/// What a tuner that was killed in write_now() has left.
void remove_unfinished(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    for (const std::string_view file : {kParamsFile, kOwnerFile}) {
      if (name.starts_with(concat(".unfinished-", file, '-'))) fs::remove(entry.path(), error);
    }
  }
}

constexpr std::array<std::string_view, 10> kInterpreters{
    "sh", "bash", "dash", "zsh", "python", "python3", "perl", "ruby", "julia", "Rscript"};

/// `python3 train.py` is started, and fails, whether or not there is a train.py.
void check_script(const StudySpec& spec, const LocalTrialStart& start) {
  if (start.argv.size() < 2 || start.argv[1].empty() || start.argv[1].starts_with('-')) return;
  if (std::ranges::find(kInterpreters, fs::path(start.argv[0]).filename().string()) ==
      kInterpreters.end())
    return;
  std::error_code error;
  if (fs::exists(start.working_folder / start.argv[1], error)) return;
  throw usage_error({.refused = concat("no such file: ", start.argv[1]),
                     .rule = concat("the command is \"", join(spec.command, " "), '"'),
                     .hint = concat("it is looked for in ", start.working_folder.string())});
}

fs::path working_folder_of(const StudySpec& spec) {
  return spec.working_folder.empty() ? fs::current_path() : fs::absolute(spec.working_folder);
}

/// Something besides what prepare() itself makes.
bool has_work(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const fs::path name = entry.path().filename();
    if (name == kParamsFile || name == kOwnerFile) continue;
    if (name != "checkpoints" || !fs::is_empty(entry.path(), error)) return true;
  }
  return false;
}

std::optional<std::string> read_if_there(const fs::path& file) {
  std::error_code error;
  return fs::exists(file, error) ? std::optional(read_file(file)) : std::nullopt;
}

bool is_within(const fs::path& path, const fs::path& folder) {
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(path, error);
  const fs::path outer = fs::weakly_canonical(folder, error);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

/// Note [Whose folder]
/// A trial finds in its folder what its own attempts have left, and nothing else: a program that
/// goes on from what it finds would go on from another study's weights. The name of the folder says
/// little, since a study that was deleted had the same. So a folder says which study it is of, and
/// what is another's is moved aside, not removed: somebody trained it. A first attempt has nothing,
/// also in the study's own folder, where an older copy of the storage is gone on with.
bool is_of_this_trial(const fs::path& folder,
                      const std::string& identity,
                      const AttemptPlan& plan,
                      const std::string& params) {
  if (plan.attempt == 1) return false;
  if (!plan.resume_from.empty() && is_within(plan.resume_from, folder)) return true;
  if (const auto owner = read_if_there(folder / kOwnerFile)) return *owner == identity + '\n';
  return read_if_there(folder / kParamsFile) ==
         params;  // of an older version, which named no owner
}

void move_stale_folder(const fs::path& folder) {
  if (!has_work(folder)) return;
  for (int i = 1;; ++i) {
    const fs::path aside = concat(folder.string(), kOldFolder, i);
    std::error_code error;
    if (fs::exists(aside, error)) continue;
    fs::rename(folder, aside, error);
    if (!error) return;
    throw environment_error({.refused = concat("cannot move ", folder.string(), " out of the way"),
                             .rule = errno_text(error.value())});
  }
}

}  // namespace

void check_program(const StudySpec& spec, const Values& values) {
  const LocalTrialStart start{.argv = expand_command(spec.command, spec.space, values),
                              .working_folder = working_folder_of(spec)};
  find_program_of(spec, start);
  check_script(spec, start);
}

namespace {

/// Who went on from another's checkpoint may come to a step for the second time, and names by steps
/// what it saves. What it saved before is not to be overwritten: others go on from that.
fs::path checkpoint_dir_of(const AttemptPlan& plan) {
  const fs::path folder = fs::absolute(plan.checkpoint_folder);
  return plan.copies == 0 ? folder : folder / concat("copy-", plan.copies);
}

bool is_rank(std::span<const std::string> environment) {
  return std::ranges::any_of(environment, [](const auto& one) { return one.starts_with("RANK="); });
}

}  // namespace

std::vector<std::string> trial_environment(const ExecutorContext& context,
                                           const AttemptPlan& plan,
                                           const TrialChannel& channel,
                                           std::span<const std::string> inherited) {
  // Nothing as the value means: not in the trial's environment, whatever the tuner has.
  std::map<std::string, std::optional<std::string>, std::less<>> ours;
  for (const auto& [name, value] : context.spec.environment) ours[name] = value;
  for (const std::string_view name : kNames) ours[std::string(name)].reset();
  if (is_rank(inherited)) {  // the tuner, of some job; its trials are none of it
    for (const std::string& name : rank_variables()) ours.try_emplace(name);
  }
  const auto set = [&](std::string_view name, std::string value) {
    ours[std::string(name)] = std::move(value);
  };
  set(kTrialIdEnv, std::to_string(plan.trial));
  set(kAttemptEnv, std::to_string(plan.attempt));
  set(kStudyEnv, context.study);
  set(kTunerAddrEnv, channel.address);
  set(kTunerTokenEnv, channel.token);
  set(kParamsFileEnv, channel.params_file.string());
  set(kCheckpointDirEnv, checkpoint_dir_of(plan).string());
  set(kReportFileEnv, channel.report_file.string());
  if (!plan.resume_from.empty()) set(kResumeFromEnv, plan.resume_from);
  if (!plan.device_ids.empty()) set("CUDA_VISIBLE_DEVICES", join(plan.device_ids, ","));

  std::map<std::string, std::string, std::less<>> defaults{{"PYTHONUNBUFFERED", "1"}};
  const auto threads = static_cast<int64_t>(plan.resources.cpu);
  defaults.emplace("OMP_NUM_THREADS", std::to_string(std::max<int64_t>(threads, 1)));

  std::vector<std::string> out;
  for (const std::string& variable : inherited) {
    const std::string_view name = std::string_view(variable).substr(0, variable.find('='));
    if (ours.contains(name)) continue;
    if (const auto found = defaults.find(name); found != defaults.end()) defaults.erase(found);
    out.push_back(variable);
  }
  for (const auto& [name, value] : ours) {
    if (value) out.push_back(concat(name, '=', *value));
    defaults.erase(name);
  }
  for (const auto& [name, value] : defaults) out.push_back(concat(name, '=', value));
  return out;
}

std::string socket_in(const fs::path& runtime_folder) { return runtime_folder / "tuner"; }

LocalTrialStart prepare(const ExecutorContext& context,
                        const AttemptPlan& plan,
                        const fs::path& runtime_folder,
                        const std::string& token,
                        std::span<const std::string> inherited) {
  const StudySpec& spec = context.spec;
  LocalTrialStart start{
      .trial = plan.trial,
      .attempt = plan.attempt,
      .argv = expand_command(spec.command, spec.space, plan.values),
      .working_folder = working_folder_of(spec),
      .folder = fs::absolute(plan.checkpoint_folder).parent_path(),
      .report_file = runtime_folder / concat("report-", plan.trial, '-', plan.attempt),
      .trial_timeout_s = spec.trial_timeout_s,
      .report_timeout_s = spec.report_timeout_s,
      .kill_grace_s = spec.kill_grace_s};
  if (start.argv.empty()) {
    throw usage_error({.refused = "there is nothing to run",
                       .rule = "a study of programs has a command",
                       .hint = "command = [\"./train.sh\", \"--lr\", \"{lr}\"]"});
  }
  start.program = find_program_of(spec, start);
  const fs::path params = start.folder / kParamsFile;
  const std::string params_text = json_text(to_json(spec.space, plan.values)) + '\n';
  remove_unfinished(start.folder);
  if (!is_of_this_trial(start.folder, context.identity, plan, params_text))
    move_stale_folder(start.folder);
  make_folder(checkpoint_dir_of(plan));
  write_now(start.folder / kOwnerFile, context.identity + '\n');
  write_now(params, params_text);
  start.environment = trial_environment(context,
                                        plan,
                                        {.address = "unix:" + socket_in(runtime_folder),
                                         .token = token,
                                         .params_file = params,
                                         .report_file = start.report_file},
                                        inherited);
  return start;
}

std::string make_token() {
  unsigned char bytes[16];
  if (::getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes))
    throw environment_error({.refused = "no random bytes", .rule = errno_text(errno)});
  std::string token;
  for (const unsigned char byte : bytes) {
    token += "0123456789abcdef"[byte >> 4];
    token += "0123456789abcdef"[byte & 15];
  }
  return token;
}

std::filesystem::path make_runtime_folder() {
  int reason = ENAMETOOLONG;
  for (const auto& parent : {process_environment("XDG_RUNTIME_DIR"),
                             process_environment("TMPDIR"),
                             std::optional<std::string>("/tmp")}) {
    if (!parent || !parent->starts_with('/') || parent->size() > kLongestFolder) continue;
    std::string name = *parent + "/muster-tune-XXXXXX";
    if (::mkdtemp(name.data()) != nullptr) return name;
    reason = errno;
  }
  throw environment_error({.refused = "cannot make a folder for the tuner's socket",
                           .rule = errno_text(reason),
                           .hint = "set TMPDIR to a folder that this user may write"});
}

}  // namespace muster::tune
