// `muster evaluate`: a trained model's numbers, alone or as one rank of a job.
#include "muster/train/loop/evaluate.h"

#include <ostream>

#include <c10/core/DeviceGuard.h>

#include "muster/base/json.h"
#include "muster/base/metric_text.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
#include "muster/program/line/parse.h"
#include "muster/program/screen/reporter.h"
#include "muster/train/classifier/asked_classifier.h"
#include "muster/train/program/as_rank.h"

#include "cli/command.h"
#include "cli/line/ask_flags.h"
#include "cli/torch/device_kinds.h"

namespace muster::cli {
namespace {

Json numbers_json(const train::AskedClassifier& asked, const train::Evaluation& seen) {
  Json json = {{"model", asked.model},
               {"data", asked.data},
               {"split", asked.split},
               {"samples", asked.samples->size()}};
  for (const auto& [name, value] : seen.metrics) json[name] = value;
  if (seen.report.confusion) json["macro_f1"] = seen.report.confusion->macro().f1;
  json["step"] = asked.step;
  json["checkpoint"] = asked.checkpoint.string();
  return json;
}

void print_numbers(const train::Evaluation& seen, std::ostream& out) {
  for (const auto& [name, value] : seen.metrics) out << name << ' ' << metric_text(value) << '\n';
  for (const auto& [name, text] : seen.report.lines) out << name << ' ' << text << '\n';
  out << std::flush;
}

int evaluate_command(std::span<const std::string> args, program::Console& console) {
  EvaluateFlags flags;
  if (const auto over = program::parse(*evaluate_app(flags), args, console)) return *over;
  flags.ask.needs_targets = true;
  const auto env = rank_env_from();
  const train::Surroundings around = train::surroundings_of(env, device_kinds());
  const train::Placement placed = train::place_asked(flags.ask, around);
  const c10::Device device = placed.devices[0];
  const c10::OptionalDeviceGuard on_device(device);
  const distributed::ProcessGroup group = distributed::init_process_group(
      train::group_options(flags.ask.backend,
                           device,
                           "evaluate",
                           env,
                           [&](const std::string& text) { console.note(text); }),
      env);
  train::AskedClassifier asked = train::ask_classifier(flags.ask, around, group, device);
  asked.notes.insert(asked.notes.end(), placed.remarks.begin(), placed.remarks.end());
  const bool first = group.rank() == 0;
  program::Reporter reporter(console, env.has_value());
  for (const std::string& note : asked.notes) {
    if (first) reporter.note("muster: " + note);
  }
  const train::Evaluation seen = train::evaluate_shown(
      *asked.task,
      asked.samples,
      group,
      asked.options,
      [&](int64_t done, int64_t batches, const train::Metrics& metrics) {
        if (first)
          reporter.progress(
              {.phase = asked.split, .step = done, .steps = batches, .metrics = metrics.items()});
      });
  reporter.finish();
  if (!first) return kDone;
  console.note(concat(asked.model,
                      " after step ",
                      asked.step,
                      " on the ",
                      asked.samples->size(),
                      ' ',
                      asked.split,
                      " samples of ",
                      asked.data));
  if (flags.json) {
    console.out() << json_text(numbers_json(asked, seen)) << '\n' << std::flush;
  } else {
    print_numbers(seen, console.out());
  }
  return kDone;
}

int run_evaluate_command(std::span<const std::string> args, program::Console& console) {
  return train::as_rank([&] { return evaluate_command(args, console); });
}

}  // namespace

extern constinit const CommandEntry evaluate_entry{
    "evaluate",
    "measure a trained model: loss, accuracy, F1, or rmse, mae, r2",
    &run_evaluate_command};

}  // namespace muster::cli
