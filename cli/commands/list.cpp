// `muster list`: the kinds, and the tables of torch-free rooms; cli/torch/commands/list.cpp has the
// others.
#include <algorithm>

#include "muster/launch/job/launcher.h"
#include "muster/pipeline/schedule/schedule.h"
#include "muster/tune/execute/executor.h"
#include "muster/tune/schedule/scheduler.h"
#include "muster/tune/search/searcher.h"

#include "cli/command.h"
#include "cli/describe/list_table.h"
#include "cli/exec_torch.h"

namespace muster::cli {
namespace {

std::vector<ListRow> kind_rows() {
  std::vector<ListRow> rows;
  for (const ListKind& kind : list_kinds()) {
    rows.push_back({std::string(kind.name), std::string(kind.help), "", {}});
  }
  return rows;
}

/// The rows of a kind that needs no LibTorch.
std::vector<ListRow> rows_of(std::string_view kind) {
  if (kind.empty()) return kind_rows();
  if (kind == "launchers") return list_rows(launch::launchers());
  if (kind == "executors") return list_rows(tune::executors());
  if (kind == "schedules") return list_rows(pipeline::schedules());
  if (kind == "schedulers") return list_rows(tune::schedulers());
  return list_rows(tune::searchers());
}

int run_list_command(std::span<const std::string> args, program::Console& console) {
  std::optional<int> done;
  const ListRequest request = parse_list(args, console, done);
  if (done) return *done;
  const auto kinds = list_kinds();
  const bool needs_torch = std::ranges::any_of(
      kinds, [&](const ListKind& kind) { return kind.name == request.kind && kind.needs_torch; });
  if (needs_torch) exec_torch("list", args);
  print_rows(rows_of(request.kind), request, console);
  return kDone;
}

}  // namespace

extern constinit const CommandEntry list_entry{
    "list", "list models, datasets, backends, launchers, …", &run_list_command};

}  // namespace muster::cli
