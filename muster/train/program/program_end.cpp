#include "muster/train/program/program_end.h"

#include <optional>

#include "muster/base/json.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
#include "muster/program/line/shell_word.h"
#include "muster/train/record/run_files.h"

namespace muster::train {
namespace {

/// What started this process as a rank, as words in front of its own: "muster run … -- ", or "".
std::string launcher_words() {
  const std::optional<RankEnv> env = rank_env_from();
  if (!env || env->world_size == 1) return "";
  const std::string nodes =
      env->group_world_size > 1 ? concat("--nnodes ", env->group_world_size, " … ") : "";
  return concat("muster run ", nodes, "--nproc-per-node ", env->local_world_size, " -- ");
}

}  // namespace

Json json_of(const ProgramEnd& end) {
  const FitResult& result = end.result;
  Json object = Json::object();
  for (const bool is_loss : {false, true})
    for (const auto& [name, value] : result.test.metrics)
      if ((name == "loss") == is_loss) object[concat("test_", name)] = value;
  object["steps"] = result.steps;
  object["seconds"] = result.seconds;
  if (end.is_kept) {
    object["output"] = end.output.string();
    // What the numbers are of; without a test the newest.
    object["checkpoint"] = (result.tested.empty() ? result.checkpoint : result.tested).string();
  }
  if (result.skipped_steps) object["skipped_steps"] = *result.skipped_steps;
  if (result.memory)
    object["out_of_memory"] = {{"failures", result.memory->failures},
                               {"micro_batch", result.memory->micro_batch}};
  return object;
}

std::string end_text(const ProgramEnd& end, const std::string& command) {
  const FitResult& result = end.result;
  if (!end.is_kept) {
    return concat("fast dev run ",
                  result.interrupted ? "interrupted" : "finished",
                  " in ",
                  human_duration(result.seconds),
                  "; its folder ",
                  end.output.string(),
                  " is gone");
  }
  if (result.interrupted && result.checkpoint.empty())
    return "interrupted in a search before the first step; there is nothing to go on from";
  if (result.interrupted) {
    return concat("interrupted after step ",
                  result.steps,
                  "; saved in ",
                  result.checkpoint.string(),
                  "\nhint: go on with `",
                  launcher_words(),
                  command,
                  " --resume ",
                  program::shell_word(end.output.string()),
                  end.place_flags,
                  "`");
  }
  return concat(
      "finished ",
      result.steps,
      " steps",
      result.skipped_steps.value_or(0) > 0
          ? concat(" (", *result.skipped_steps, " left out because of overflow)")
          : "",
      result.memory ? concat(" (out of memory ", text_of(*result.memory), ")") : "",
      " in ",
      human_duration(result.seconds),
      "; results in ",
      end.output.string(),
      result.has_page ? concat(", curves in ", (end.output / "index.html").string()) : "");
}

}  // namespace muster::train
