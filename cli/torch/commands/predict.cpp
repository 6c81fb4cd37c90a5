// `muster predict`: what a trained classifier or regressor says of each sample, alone or as one rank of a job.
#include "muster/train/loop/predict.h"

#include <memory>
#include <ostream>

#include <c10/core/DeviceGuard.h>

#include "muster/base/error.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
#include "muster/program/line/parse.h"
#include "muster/program/screen/reporter.h"
#include "muster/train/classifier/asked_classifier.h"
#include "muster/train/classifier/predictions_csv.h"
#include "muster/train/program/as_rank.h"
#include "muster/train/program/prediction_output.h"
#include "muster/train/program/rows_csv.h"
#include "muster/train/replicas/first_rank.h"

#include "cli/command.h"
#include "cli/line/ask_flags.h"
#include "cli/torch/device_kinds.h"

namespace muster::cli {
namespace {

/// Of rank 0.
void write_predictions(const PredictFlags& flags,
                       const train::AskedClassifier& asked,
                       const distributed::ProcessGroup& group,
                       train::PredictionOutput& lines,
                       program::Console& console,
                       program::Reporter& reporter) {
  const auto write = [&](std::string_view text) { lines.write(text); };
  train::PredictionsCsv classes(
      asked.samples->spec().class_names, flags.probabilities, write, asked.file_of);
  train::RowsCsv numbers(write);
  const int64_t samples = asked.samples->size();
  train::predict(
      *asked.task, asked.samples, group, asked.options, [&](const train::PredictedRows& rows) {
        if (asked.is_regression) {
          numbers.add(rows);
        } else {
          classes.add(rows);
        }
        const int64_t per_round = asked.options.batch_size * group.world_size();
        reporter.progress({.phase = "predict",
                           .step = rows.first / per_round + 1,
                           .steps = (samples + per_round - 1) / per_round});
      });
  lines.commit();
  reporter.finish();
  console.note(concat(asked.model,
                      " after step ",
                      asked.step,
                      " on the ",
                      samples,
                      ' ',
                      asked.split,
                      " samples of ",
                      asked.data,
                      flags.output == "-" ? "" : "; predictions in " + flags.output.string()));
}

void check_has_classes(const PredictFlags& flags, const train::AskedClassifier& asked) {
  if (!asked.is_regression || !flags.probabilities) return;
  throw usage_error({.refused = "--probabilities",
                     .rule = "classes have them, and the run predicts a number",
                     .value = asked.data,
                     .hint = "leave it away"});
}

int predict_command(std::span<const std::string> args, program::Console& console) {
  PredictFlags flags;
  if (const auto over = program::parse(*predict_app(flags), args, console)) return *over;
  const auto env = rank_env_from();
  const train::Surroundings around = train::surroundings_of(env, device_kinds());
  const train::Placement placed = train::place_asked(flags.ask, around);
  const c10::Device device = placed.devices[0];
  const c10::OptionalDeviceGuard on_device(device);
  const distributed::ProcessGroup group = distributed::init_process_group(
      train::group_options(flags.ask.backend,
                           device,
                           "predict",
                           env,
                           [&](const std::string& text) { console.note(text); }),
      env);
  train::AskedClassifier asked = train::ask_classifier(flags.ask, around, group, device);
  check_has_classes(flags, asked);
  asked.notes.insert(asked.notes.end(), placed.remarks.begin(), placed.remarks.end());
  if (group.rank() == 0) train::watch_prediction_signals();
  std::unique_ptr<train::PredictionOutput> lines;
  train::on_first_rank(group, [&] {
    lines = std::make_unique<train::PredictionOutput>(flags.output, console.out());
  });
  if (group.rank() != 0) {
    train::predict(*asked.task, asked.samples, group, asked.options, {});
    return kDone;
  }
  program::Reporter reporter(console, env.has_value());
  for (const std::string& note : asked.notes) reporter.note("muster: " + note);
  try {
    write_predictions(flags, asked, group, *lines, console, reporter);
  } catch (const train::PredictionStopped&) {
    reporter.finish();
    console.note("interrupted: nothing is written");
    return kInterrupted;
  }
  return kDone;
}

int run_predict_command(std::span<const std::string> args, program::Console& console) {
  return train::as_rank([&] { return predict_command(args, console); });
}

}  // namespace

extern constinit const CommandEntry predict_entry{
    "predict", "write a trained model's answer to each sample", &run_predict_command};

}  // namespace muster::cli
