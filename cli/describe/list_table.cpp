#include "cli/describe/list_table.h"

#include <algorithm>
#include <ostream>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "cli/line/app.h"

namespace muster::cli {
namespace {

constexpr size_t kListWidth = 80;

constexpr ListKind kKinds[] = {
    {"backends", "process groups: ways to move tensors between ranks", true},
    {"comm-hooks", "how DistributedDataParallel's gradients travel", true},
    {"datasets", "data that `muster train --data` reads", true},
    {"executors", "ways in which `muster tune` runs trials", false},
    {"launchers", "ways in which `muster run` starts ranks", false},
    {"lr-schedules", "learning rates over a run: `muster train --lr-schedule`", true},
    {"models", "models that `muster train --model` builds", true},
    {"optimizers", "optimizers of `muster train --optimizer`", true},
    {"schedulers", "which trials of `muster tune` go on", false},
    {"schedules", "in which order the ranks of a pipeline compute: `muster pipeline`", false},
    {"searchers", "where the next trial of `muster tune` looks", false},
    {"strategies", "how ranks share the work: `muster train --strategy`", true},
    {"transforms", "changes of samples: `muster train --train-transform`", true},
};

const char* const kListExamples =
    "Examples:\n"
    "  muster list                   the kinds\n"
    "  muster list models            models and their parameters\n"
    "  muster list backends --json   for a script\n"
    "\n"
    "A parameter is set behind the name: --model mlp:hidden=128";

Json to_json(const ListRow& row) {
  Json json = {{"name", row.name}, {"help", row.help}, {"available", row.unavailable.empty()}};
  if (!row.unavailable.empty()) json["why_not"] = row.unavailable;
  json["params"] = Json::array();
  for (const Param& param : row.params) {
    json["params"].push_back({{"name", param.name},
                              {"type", param.type},
                              {"help", param.help},
                              {"default", param.default_value()}});
  }
  return json;
}

void print_row(const ListRow& row, size_t column, std::ostream& out) {
  std::string text = row.help;
  if (!row.unavailable.empty()) text += "\nnot here: " + row.unavailable;
  for (const Param& param : row.params) {
    const std::string value = param.default_value();
    text += concat("\n", param.name, "=", param.type, ": ", param.help);
    if (!value.empty()) text += concat(" [", value, "]");
  }
  const std::string body = wrap(text, kListWidth, std::string(column, ' '));
  out << row.name << body.substr(std::min(display_width(row.name), body.size())) << '\n';
}

}  // namespace

std::span<const ListKind> list_kinds() { return kKinds; }

ListRequest parse_list(std::span<const std::string> args,
                       program::Console& console,
                       std::optional<int>& done) {
  ListRequest request;
  const auto app = make_app("list",
                            "List what can be named on the command line.",
                            kListExamples,
                            "muster list [KIND] [--json | --names]");
  std::string known;
  for (const ListKind& kind : kKinds) known += concat(known.empty() ? "" : ", ", kind.name);
  program::add_value(*app, "kind", request.kind, known)->type_name("KIND");
  app->add_flag("--json", request.json, "one JSON array instead of a table");
  app->add_flag("--names", request.names, "names alone, one a line");
  done = program::parse(*app, args, console);
  if (done || request.kind.empty()) return request;
  std::vector<std::string> names;
  for (const ListKind& kind : kKinds) names.emplace_back(kind.name);
  if (std::ranges::find(names, request.kind) == names.end()) {
    // "hooks" is the end of comm-hooks, and nearer to nothing.
    std::vector<std::string> near;
    for (const std::string& name : names) {
      if (name.ends_with("-" + request.kind) || nearest(request.kind, std::span(&name, 1)))
        near.push_back('"' + name + '"');
    }
    throw usage_error({.refused = concat("unknown kind \"", request.kind, "\""),
                       .hint = near.empty() ? suggestion(request.kind, names)
                                            : concat("did you mean ", join(near, " or "), "?")});
  }
  return request;
}

void print_rows(std::span<const ListRow> rows,
                const ListRequest& request,
                program::Console& console) {
  if (request.names) {
    for (const ListRow& row : rows) console.out() << row.name << '\n';
    console.out() << std::flush;
    return;
  }
  if (request.json) {
    Json array = Json::array();
    for (const ListRow& row : rows) array.push_back(to_json(row));
    console.out() << array.dump(2) << '\n' << std::flush;
    return;
  }
  size_t column = 0;
  for (const ListRow& row : rows) column = std::max(column, display_width(row.name) + 2);
  for (const ListRow& row : rows) print_row(row, column, console.out());
  console.out() << std::flush;
}

}  // namespace muster::cli
