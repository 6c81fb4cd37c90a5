#include "muster/launch/job/job.h"

#include <cmath>

#include <signal.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::launch {
namespace {

// Far above any machine; keeps a slip such as --nproc-per-node 10000000 from being tried.
constexpr int64_t kMostRanks = 4096;
constexpr int64_t kMostNodes = 65536;

void check_world(const JobSpec& spec) {
  if (spec.nproc_per_node < 1 || spec.nproc_per_node > kMostRanks) {
    throw usage_error({.refused = "ranks of a node",
                       .rule = concat("each node has 1 to ", kMostRanks, " of them"),
                       .value = concat("--nproc-per-node ", spec.nproc_per_node)});
  }
  if (spec.nnodes < 1 || spec.nnodes > kMostNodes) {
    throw usage_error({.refused = "nodes of a job",
                       .rule = concat("a job has 1 to ", kMostNodes, " of them"),
                       .value = concat("--nnodes ", spec.nnodes)});
  }
  if (spec.node_rank < 0 || spec.node_rank >= spec.nnodes) {
    throw usage_error({.refused = concat("node rank ", spec.node_rank),
                       .rule = concat("nodes are numbered 0 to ", spec.nnodes - 1),
                       .value = concat("--node-rank ", spec.node_rank),
                       .hint = "each node has a rank of its own, below --nnodes"});
  }
}

}  // namespace

void check(const JobSpec& spec) {
  if (spec.argv.empty() || spec.argv[0].empty()) {
    throw usage_error(
        {.refused = "no program to run",
         .hint = "put it behind the flags: muster run --nproc-per-node 2 -- ./train"});
  }
  check_world(spec);
  if (spec.master_port < 0 || spec.master_port > 65535) {
    throw usage_error({.refused = "master port",
                       .rule = "a port is a number from 1 to 65535",
                       .value = std::to_string(spec.master_port)});
  }
  if (spec.nnodes > 1 && spec.master_port == 0) {
    throw usage_error({.refused = concat("a job on ", spec.nnodes, " nodes without an address"),
                       .rule = "every node is told where rank 0 listens",
                       .hint = "give --rdzv-endpoint HOST:PORT, the same on each node"});
  }
  if (spec.max_restarts < 0 || (spec.nnodes > 1 && spec.max_restarts > 0)) {
    throw usage_error({.refused = "restarts",
                       .rule = "a number from 0; 0 on several nodes, which cannot agree on one yet",
                       .value = concat("--max-restarts ", spec.max_restarts),
                       .hint = spec.nnodes > 1 ? "leave it out; `muster train --resume` goes on "
                                                 "from the last checkpoint"
                                               : ""});
  }
  if (!std::isfinite(spec.shutdown_timeout_s) || spec.shutdown_timeout_s < 0 ||
      spec.shutdown_timeout_s > 86400) {
    throw usage_error({.refused = "grace time",
                       .rule = "seconds from 0 to 86400",
                       .value = concat("--shutdown-timeout ", shortest(spec.shutdown_timeout_s))});
  }
  if (spec.run_id.find('/') != std::string::npos || spec.run_id == "." || spec.run_id == "..") {
    throw usage_error({.refused = "run id",
                       .rule = "it names a folder, so it holds no slash",
                       .value = spec.run_id});
  }
}

int exit_code_of(int interrupted_by, const std::optional<RankFailure>& failure) {
  if (interrupted_by != 0) return 128 + interrupted_by;
  if (!failure) return 0;
  if (was_interrupted(*failure)) return 128 + SIGINT;
  return was_wrong_use(failure->wait_status) ? 2 : 1;
}

}  // namespace muster::launch
