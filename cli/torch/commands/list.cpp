// `muster list` for the tables of torch rooms; `muster` itself prints the kinds and hands these on.
#include "muster/data/dataset.h"
#include "muster/data/transform/transform.h"
#include "muster/distributed/meet/backend.h"
#include "muster/models/model.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/schedule.h"
#include "muster/parallel/hook/comm_hook.h"
#include "muster/train/replicas/strategy.h"

#include "cli/command.h"
#include "cli/describe/list_table.h"

namespace muster::cli {
namespace {

std::vector<ListRow> rows_of(std::string_view kind) {
  if (kind == "models") return list_rows(models::models());
  if (kind == "datasets") return list_rows(data::datasets());
  if (kind == "backends") return list_rows(distributed::backends());
  if (kind == "comm-hooks") return list_rows(parallel::comm_hooks());
  if (kind == "lr-schedules") return list_rows(optim::schedules());
  if (kind == "strategies") return list_rows(train::strategies());
  if (kind == "optimizers") return list_rows(optim::optimizers());
  if (kind == "transforms") return list_rows(data::transforms());
  throw internal_error({.refused = concat("muster-torch has no table of ", kind)});
}

int run_list_command(std::span<const std::string> args, program::Console& console) {
  std::optional<int> done;
  const ListRequest request = parse_list(args, console, done);
  if (done) return *done;
  print_rows(rows_of(request.kind), request, console);
  return kDone;
}

}  // namespace

extern constinit const CommandEntry list_entry{
    "list", "list models, datasets, backends, …", &run_list_command};

}  // namespace muster::cli
