// `muster pipeline`: a pipeline schedule checked, simulated and drawn, without devices.
#include <algorithm>
#include <filesystem>
#include <ostream>

#include "muster/base/counted.h"
#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/pipeline/draw/gantt.h"
#include "muster/pipeline/draw/text_drawing.h"
#include "muster/pipeline/schedule/schedule.h"
#include "muster/pipeline/simulate/simulator.h"
#include "muster/program/line/value.h"

#include "cli/command.h"
#include "cli/line/app.h"

namespace muster::cli {
namespace {

constexpr const char* kPipelineExamples =
    "Examples:\n"
    "  muster pipeline 1f1b --ranks 4 --micro-batches 8\n"
    "  muster pipeline zbv --ranks 4 --transfer-time 0.25 --svg zbv.svg\n"
    "  muster pipeline --file order.csv   a schedule of one's own, or PyTorch's\n\n"
    "All stages take the times that are given, in any unit. \"F3\" is the forward of\n"
    "micro-batch 3, B its backward, I and W the halves of backward (gradients of the\n"
    "input and of the weights); with several stages on a rank the stage stands\n"
    "before it: 2F3.";

struct PipelineWords {
  std::string schedule;
  std::filesystem::path file, svg;
  int64_t ranks = 4, micro_batches = 8;
  std::optional<int64_t> stages;
  double forward = 1, input = 1, weight = 1, transfer = 0;
  std::optional<double> until;
  bool csv = false, json = false;
};

std::unique_ptr<CLI::App> pipeline_app(PipelineWords& words) {
  auto app = make_app("pipeline",
                      "Checks a pipeline schedule, simulates a step, and draws it.",
                      kPipelineExamples,
                      "muster pipeline SCHEDULE [OPTIONS]");
  program::add_value(*app, "schedule", words.schedule, "see `muster list schedules`")
      ->type_name("SCHEDULE");
  CLI::Option* ranks =
      program::add_value(*app, "--ranks", words.ranks, "ranks, each with its device")
          ->type_name("N")
          ->capture_default_str();
  CLI::Option* stages =
      program::add_value(
          *app, "--stages", words.stages, "stages of the model [what suits the schedule]")
          ->type_name("N");
  CLI::Option* micro_batches =
      program::add_value(*app, "--micro-batches", words.micro_batches, "parts of a batch")
          ->type_name("N")
          ->capture_default_str();
  program::add_value(*app, "--forward-time", words.forward, "of a stage, for a micro-batch")
      ->type_name("TIME")
      ->capture_default_str();
  program::add_value(*app, "--input-time", words.input, "of backward, for the input's gradient")
      ->type_name("TIME")
      ->capture_default_str();
  program::add_value(*app, "--weight-time", words.weight, "of backward, for the weights' gradients")
      ->type_name("TIME")
      ->capture_default_str();
  program::add_value(*app, "--transfer-time", words.transfer, "between two ranks")
      ->type_name("TIME")
      ->capture_default_str();
  program::add_value(
      *app, "--file", words.file, "a schedule as CSV, a line of actions for each rank")
      ->type_name("CSV")
      ->excludes(ranks, stages, micro_batches);  // the file says them
  CLI::Option* svg =
      program::add_value(
          *app, "--svg", words.svg, "draw the step as a Gantt chart, too; PNG by its ending")
          ->type_name("FILE");
  program::add_value(
      *app, "--until", words.until, "end of the chart's time axis, to compare charts")
      ->type_name("TIME")
      ->needs(svg);
  CLI::Option* csv = app->add_flag("--csv", words.csv, "the actions instead of a drawing");
  app->add_flag("--json", words.json, "times instead of a drawing, as one JSON object")
      ->excludes(csv);
  return app;
}

pipeline::ActionLists lists_of(const PipelineWords& words) {
  if (words.schedule.empty() == words.file.empty()) {
    throw usage_error({.refused = "it is not said which schedule",
                       .rule = "there is either a schedule's name or --file",
                       .hint = "muster pipeline 1f1b; see `muster list schedules`"});
  }
  if (!words.file.empty()) return pipeline::parse_csv(read_file(words.file));
  const auto& entry = pipeline::schedules().at(parse_spec(words.schedule).name);
  const int64_t stages =
      words.stages.value_or(std::clamp<int64_t>(words.ranks, 0, 1 << 20) * entry.stages_per_rank);
  return pipeline::make_schedule(words.schedule, {stages, words.ranks, words.micro_batches}).lists;
}

std::string head_of(const PipelineWords& words, const pipeline::ActionLists& lists) {
  return concat(words.file.empty() ? words.schedule : words.file.filename().string(),
                ", ",
                counted(lists.placement.stages(), "stage"),
                " on ",
                counted(lists.placement.ranks(), "rank"),
                ", ",
                counted(lists.micro_batches, "micro-batch", "micro-batches"));
}

Json to_json(const pipeline::Timeline& timeline, const pipeline::ActionLists& lists) {
  Json ranks = Json::array();
  const auto held = pipeline::peak_in_flight(lists);
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    ranks.push_back({{"stages", lists.placement.stages_of(static_cast<int64_t>(rank))},
                     {"busy", timeline.busy_s(static_cast<int64_t>(rank))},
                     {"activations_in_flight", held[rank]}});
  }
  return {{"step", timeline.step_s()},
          {"bubble", timeline.bubble()},
          {"idle", timeline.idle_s()},
          {"micro_batches", lists.micro_batches},
          {"ranks", std::move(ranks)}};
}

int run_pipeline_command(std::span<const std::string> args, program::Console& console) {
  PipelineWords words;
  if (const auto done = program::parse(*pipeline_app(words), args, console)) return *done;
  if (!words.svg.empty()) pipeline::check_gantt_file("--svg", words.svg);
  const pipeline::ActionLists lists = lists_of(words);
  const pipeline::Simulator simulator(lists);
  const pipeline::Timeline timeline =
      simulator.run(pipeline::equal_stages(lists.placement.stages(),
                                           {.forward_s = words.forward,
                                            .backward_s = words.input + words.weight,
                                            .input_s = words.input,
                                            .weight_s = words.weight,
                                            .activation_s = words.transfer,
                                            .gradient_s = words.transfer}));
  if (words.until && !(*words.until >= timeline.step_s())) {
    throw usage_error({.refused = "--until",
                       .rule = concat("the axis holds the step, ", shortest(timeline.step_s())),
                       .value = shortest(*words.until)});
  }
  const std::string head = head_of(words, lists);
  if (!words.svg.empty())
    write_file_atomic(
        words.svg,
        pipeline::gantt_file(
            timeline, {.title = head, .unit = "", .until_s = words.until.value_or(0)}, words.svg));
  if (words.csv || words.json) {
    console.out() << (words.csv ? pipeline::to_csv(lists) : to_json(timeline, lists).dump(2) + "\n")
                  << std::flush;
    return kDone;
  }
  std::string held = "activations in flight, at most:";
  for (const int64_t count : pipeline::peak_in_flight(lists)) held += concat(" ", count);
  console.out() << head << ": " << pipeline::summary_text(timeline) << '\n'
                << pipeline::draw_text(timeline, {.columns = console.width()})
                << wrap(held, static_cast<size_t>(console.width())) << '\n'
                << std::flush;
  return kDone;
}

}  // namespace

extern constinit const CommandEntry pipeline_entry{
    "pipeline", "check, simulate and draw a pipeline schedule", &run_pipeline_command};

}  // namespace muster::cli
