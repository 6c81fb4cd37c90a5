#include "cli/line/preview_flags.h"

#include "muster/program/line/value.h"

#include "cli/line/app.h"

namespace muster::cli {
namespace {

constexpr const char* kPreviewExamples =
    "Examples:\n"
    "  muster data preview folder:$HOME/pets -o pets.png \\\n"
    "    --transform 'random_resized_crop:size=224|random_horizontal_flip'\n"
    "  muster data preview fashion-mnist \\\n"
    "    --transform 'one_of(random_rotation:degrees=20|random_invert):p=0.8'\n\n"
    "A row shows a sample as it is and as the chain leaves it in one epoch after the\n"
    "other: what `muster train --train-transform CHAIN --seed SEED\n"
    "--validation-samples 0` sees. With a validation part training samples have other\n"
    "numbers, and so other draws. `muster list transforms` has the steps.";

}  // namespace

std::unique_ptr<CLI::App> preview_app(PreviewFlags& flags) {
  auto app = make_app("data preview",
                      "Draws what transforms do to the images of a dataset.",
                      kPreviewExamples,
                      "muster data preview DATA --transform CHAIN [-o FILE]");
  program::add_value(*app, "data,--data", flags.data, "as for muster train: folder:PATH, mnist …")
      ->type_name("DATA");
  program::add_value(*app, "--data-dir", flags.data_dir, "where its files are")->type_name("DIR");
  program::add_value(*app, "--split", flags.split, "train or test")->capture_default_str();
  program::add_value(*app, "--transform", flags.transform, "the chain; none: the images alone")
      ->type_name("CHAIN");
  program::add_value(*app, "--count", flags.count, "samples, spread evenly over the data")
      ->type_name("N")
      ->capture_default_str();
  program::add_value(*app, "--draws", flags.draws, "epochs that are shown of each")
      ->type_name("N")
      ->capture_default_str();
  program::add_value(*app, "--seed", flags.seed, "of the random numbers")->capture_default_str();
  program::add_value(*app, "--epoch", flags.epoch, "the first that is shown")
      ->type_name("N")
      ->capture_default_str();
  program::add_value(*app, "-o,--output", flags.output, "the PNG file")
      ->type_name("FILE")
      ->capture_default_str();
  return app;
}

}  // namespace muster::cli
