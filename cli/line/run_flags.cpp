#include "cli/line/run_flags.h"

#include <cctype>
#include <filesystem>
#include <tuple>
#include <utility>

#include <sched.h>

#include "muster/base/error.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"

#include "cli/line/app.h"

namespace muster::cli {
namespace {

constexpr int64_t kTorchrunPort = 29500;

const char* const kRunDescription =
    "Start PROGRAM as several ranks, with torchrun's flags and environment variables. What the "
    "ranks print is shown line "
    "by line behind the rank's number. When one rank fails, the others are stopped and the first "
    "failure is explained. "
    "No process of the job outlives this command.";

const char* const kRunFooter =
    "Examples:\n"
    "  muster run --nproc-per-node 2 -- muster train --model cnn --data fashion-mnist\n"
    "  muster run --nproc-per-node 4 ./my_program --its-own-flags\n"
    "  muster run --nproc-per-node gpu -- python3 train.py\n"
    "  muster run --nnodes 2 --node-rank 0 --rdzv-endpoint host0:29500 -- ./train\n"
    "\n"
    "Exit codes:\n"
    "  0 every rank ended with 0; 1 a rank failed; 2 wrong use, of this command or\n"
    "  by a rank that ended with 2; 130 after Ctrl-C, here or of one rank; 128 + n\n"
    "  after another signal n.\n"
    "\n"
    "Signals:\n"
    "  INT, HUP, QUIT and TERM are passed on to the ranks, which then have\n"
    "  --shutdown-timeout to end; Ctrl-C once more kills them at once.\n"
    "\n"
    "Logs:\n"
    "  LOG_DIR/RUN_ID/attempt_N/LOCAL_RANK/{stdout,stderr}.log; without --log-dir in\n"
    "  ~/.local/state/muster/logs, where the 20 newest runs are kept. Where an\n"
    "  earlier run had the same --rdzv-id, the folder is RUN_ID-2, -3, …\n"
    "\n"
    "Ranks on one node read an empty stdin, except local rank 0, which gets ours\n"
    "unless that is a terminal. OMP_NUM_THREADS is 1 with several ranks, unless set.";

/// The words as typed, before they mean anything.
struct TypedRun {
  std::string nproc_per_node = "1";
  std::string nnodes = "1";
  std::optional<int64_t> node_rank;
  std::string endpoint;
  std::string rdzv_backend = "static";
  std::string master_addr;
  std::optional<int64_t> master_port;
  std::string log_dir;
  std::string filter;
  bool standalone = false;
};

std::unique_ptr<CLI::App> make(TypedRun& typed, RunFlags& flags) {
  auto app =
      make_app("run", kRunDescription, kRunFooter, "muster run [OPTIONS] [--] PROGRAM [ARGS]");
  launch::JobSpec& spec = flags.spec;
  program::add_value(
      *app,
      "--nproc-per-node",
      typed.nproc_per_node,
      "ranks on this machine; gpu, cpu: as many as there are; auto: GPUs if there are any")
      ->type_name("N|gpu|cpu|auto")
      ->capture_default_str();
  program::add_value(
      *app, "--nnodes", typed.nnodes, "machines of the job; this command runs on each")
      ->type_name("N")
      ->capture_default_str();
  program::add_value(
      *app, "--node-rank", typed.node_rank, "number of this machine, from 0; needed with several")
      ->type_name("R");
  program::add_value(
      *app, "--rdzv-endpoint", typed.endpoint, "where rank 0 listens; the same on each machine")
      ->type_name("HOST:PORT");
  program::add_value(*app,
                     "--master-addr",
                     typed.master_addr,
                     "the host of --rdzv-endpoint by itself; its port is 29500 then")
      ->type_name("HOST");
  program::add_value(
      *app, "--master-port", typed.master_port, "its port; on one machine a free one is chosen")
      ->type_name("PORT");
  program::add_value(
      *app,
      "--rdzv-id",
      spec.run_id,
      "name of the run and of its log folder, the same on each machine; made up if not given")
      ->type_name("ID");
  program::add_value(*app,
                     "--rdzv-backend",
                     typed.rdzv_backend,
                     "how machines meet; static: all are there from the start")
      ->type_name("static")
      ->capture_default_str();
  app->add_flag("--standalone",
                typed.standalone,
                "one machine, as without it: for command lines of torchrun");
  program::add_value(
      *app,
      "--max-restarts",
      spec.max_restarts,
      "start all ranks again after a failure, so often, but for exit code 2; not with --nnodes "
      "above 1")
      ->type_name("K")
      ->capture_default_str();
  program::add_value(*app,
                     "--shutdown-timeout",
                     spec.shutdown_timeout_s,
                     "seconds between the first signal to the ranks and SIGKILL")
      ->type_name("S")
      ->capture_default_str();
  program::add_value(*app, "--log-dir", typed.log_dir, "folder for the logs of each rank")
      ->type_name("DIR");
  program::add_value(
      *app, "--local-ranks-filter", typed.filter, "show only these local ranks, such as 0,2")
      ->type_name("LIST");
  app->add_flag(
      "--no-prefix", flags.no_prefix, "show lines as they are, without the rank's number");
  program::add_value(
      *app, "--role", spec.role, "the ranks' variable ROLE_NAME, for programs that read it")
      ->type_name("NAME")
      ->capture_default_str();
  program::add_value(
      *app, "--launcher", flags.launcher, "how ranks are started; see `muster list launchers`")
      ->type_name("NAME")
      ->capture_default_str();
  return app;
}

int64_t count_cpus() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/// Devices that CUDA would show: those that CUDA_VISIBLE_DEVICES names, else /dev/nvidia0, 1, …
int64_t count_gpus() {
  if (const auto visible = process_environment("CUDA_VISIBLE_DEVICES")) {
    if (trim(*visible).empty() || visible->starts_with("-1")) return 0;
    return static_cast<int64_t>(split(*visible, ',').size());
  }
  int64_t count = 0;
  while (std::filesystem::exists(concat("/dev/nvidia", count))) ++count;
  return count;
}

int64_t nodes(const std::string& text) {
  if (text.find(':') != std::string::npos) {
    const auto parts = split(text, ':');
    if (parts.size() == 2 && parts[0] == parts[1] && to_int(parts[0])) return *to_int(parts[0]);
    throw usage_error({.refused = "--nnodes " + text,
                       .rule = "a range of machines (elastic training) is not supported yet",
                       .hint = "give one number"});
  }
  if (const auto count = to_int(text)) return *count;
  throw usage_error(
      {.refused = "--nnodes", .rule = "a whole number of nodes is needed", .value = text});
}

void resolve_address(const TypedRun& typed, launch::JobSpec& spec) {
  if (!typed.endpoint.empty() && (!typed.master_addr.empty() || typed.master_port)) {
    throw usage_error({.refused = "--rdzv-endpoint together with --master-addr or --master-port",
                       .rule = "they say the same thing"});
  }
  if (!typed.endpoint.empty())
    std::tie(spec.master_addr, spec.master_port) = parse_endpoint(typed.endpoint);
  if (!typed.master_addr.empty()) {
    spec.master_addr = typed.master_addr;
    spec.master_port = kTorchrunPort;
  }
  if (!typed.master_port) return;
  spec.master_port = *typed.master_port;
  if (spec.master_port < 1) {
    throw usage_error({.refused = "--master-port",
                       .rule = "a port is a number from 1 to 65535",
                       .value = std::to_string(spec.master_port)});
  }
}

void resolve(const TypedRun& typed, RunFlags& flags) {
  launch::JobSpec& spec = flags.spec;
  spec.nproc_per_node = ranks_per_node(typed.nproc_per_node, count_gpus(), count_cpus());
  spec.nnodes = nodes(typed.nnodes);
  if (spec.nnodes > 1 && !typed.node_rank) {
    throw usage_error({.refused = concat("--nnodes ", spec.nnodes, " without --node-rank"),
                       .rule = "each machine is told its number, from 0",
                       .hint = concat("add --node-rank 0 … ", spec.nnodes - 1)});
  }
  spec.node_rank = typed.node_rank.value_or(0);
  if (typed.rdzv_backend != "static" && !(typed.rdzv_backend == "c10d" && spec.nnodes == 1)) {
    throw usage_error({.refused = "--rdzv-backend " + typed.rdzv_backend,
                       .rule = "only static is supported",
                       .hint = "give each machine its --node-rank and leave this flag out"});
  }
  resolve_address(typed, spec);
  spec.log_dir = typed.log_dir;
  if (typed.filter.empty()) return;
  for (const std::string& word : split(typed.filter, ',')) {
    const auto local = to_int(trim(word));
    if (!local || *local < 0 || *local >= spec.nproc_per_node) {
      throw usage_error({.refused = "--local-ranks-filter",
                         .rule = concat("local ranks are 0 to ", spec.nproc_per_node - 1),
                         .value = word});
    }
    flags.local_ranks_filter.push_back(*local);
  }
}

}  // namespace

std::optional<int> parse_run_flags(std::span<const std::string> args,
                                   program::Console& console,
                                   RunFlags& flags) {
  TypedRun typed;
  const auto app = make(typed, flags);
  program::ProgramLine line = program::split_program(*app, args);
  if (const auto done = program::parse(*app, line.flags, console)) return done;
  resolve(typed, flags);
  flags.spec.argv = std::move(line.program);
  // `build/bin/muster run -- muster train …` works without an installation.
  if (!flags.spec.argv.empty() && flags.spec.argv[0] == "muster") {
    flags.spec.argv[0] = std::filesystem::read_symlink("/proc/self/exe").string();
  }
  return std::nullopt;
}

int64_t ranks_per_node(std::string_view text, int64_t gpus, int64_t cpus) {
  if (text == "cpu") return cpus;
  if (text == "auto") return gpus > 0 ? gpus : cpus;
  if (text == "gpu") {
    if (gpus > 0) return gpus;
    throw usage_error({.refused = "--nproc-per-node gpu",
                       .rule = "no NVIDIA device was found",
                       .hint = "--nproc-per-node cpu, or a number"});
  }
  if (const auto count = to_int(text)) return *count;
  throw usage_error({.refused = "--nproc-per-node",
                     .rule = "a whole number, auto, cpu or gpu is needed",
                     .value = std::string(text)});
}

std::pair<std::string, int64_t> parse_endpoint(std::string_view text) {
  const Error refused = usage_error({.refused = "--rdzv-endpoint",
                                     .rule = "HOST:PORT is needed, with a port from 1 to 65535",
                                     .value = std::string(text)});
  const size_t bracket = text.rfind(']');
  size_t colon = text.rfind(':');
  if (bracket != std::string_view::npos && colon != std::string_view::npos && colon < bracket) {
    colon = std::string_view::npos;  // it belongs to the IPv6 address
  }
  std::string host(text.substr(0, colon));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty()) throw refused;
  if (colon == std::string_view::npos) return {host, kTorchrunPort};
  const auto port = to_int(text.substr(colon + 1));
  if (!port || *port < 1 || *port > 65535) throw refused;
  return {host, *port};
}

}  // namespace muster::cli
