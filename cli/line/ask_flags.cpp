#include "cli/line/ask_flags.h"

#include "muster/program/line/said.h"

#include "cli/line/app.h"

namespace muster::cli {
namespace {

constexpr const char* kEvaluateExamples =
    "Examples:\n"
    "  muster evaluate runs/a\n"
    "  muster evaluate runs/a --split validation --weights best\n"
    "  muster evaluate runs/a --weights step-860 --json\n"
    "  muster evaluate runs/a --data mnist --data-dir ~/mnist\n"
    "  muster run --nproc-per-node 2 -- muster evaluate runs/a\n\n"
    "Without flags the numbers are those of the run's own test. They are lines on\n"
    "stdout, a name and a number each. Nothing is written: the run may go on\n"
    "meanwhile, and its folder may be read-only.\n\n"
    "Exit codes: 0 done, 1 failed, 2 wrong use.";

constexpr const char* kPredictExamples =
    "Examples:\n"
    "  muster predict runs/a\n"
    "  muster predict runs/a --data mnist --output mnist.csv --probabilities\n"
    "  muster predict runs/a --split train --weights best --output -\n"
    "  muster run --nproc-per-node 2 -- muster predict runs/a --output a.csv\n\n"
    "A line per sample, in the order of the data: index, class, name (if the classes\n"
    "have names), probability, probability_NAME for each class (--probabilities), and\n"
    "target (if the data has one); of a regression index, prediction and target, in\n"
    "the target's own units. The file appears when it is whole, and is the same for\n"
    "any number of ranks with as many threads each. The run's folder is only read.\n\n"
    "Exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted: no file.";

void add_ask_flags(CLI::App& app, train::AskOptions& ask) {
  program::add_value(app, "run", ask.run, "the folder of a run of `muster train`")
      ->type_name("DIR")
      ->required();
  train::visit_ask_options(ask, /*names_data=*/true, [&](const auto& info, auto& value) {
    program::add_option_flag(app, info, value);
  });
}

}  // namespace

std::unique_ptr<CLI::App> evaluate_app(EvaluateFlags& flags) {
  auto app =
      make_app("evaluate",
               "Measure a trained model on a split of its data, or of other data of the same "
               "form: each sample once, on any number of ranks.",
               kEvaluateExamples,
               "muster evaluate RUN [OPTIONS]");
  add_ask_flags(*app, flags.ask);
  app->add_flag("--json", flags.json, "print the numbers as one JSON object");
  return app;
}

std::unique_ptr<CLI::App> predict_app(PredictFlags& flags) {
  auto app = make_app("predict",
                      "Write what a trained model says of each sample, as CSV, on any number of "
                      "ranks.",
                      kPredictExamples,
                      "muster predict RUN [OPTIONS]");
  add_ask_flags(*app, flags.ask);
  program::add_value(*app, "--output", flags.output, "the CSV file; -: stdout")
      ->type_name("FILE")
      ->capture_default_str();
  app->add_flag("--probabilities", flags.probabilities, "a column for each class as well");
  return app;
}

}  // namespace muster::cli
