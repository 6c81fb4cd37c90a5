#include "cli/line/split_flags.h"

#include "muster/program/line/value.h"

#include "cli/line/app.h"

namespace muster::cli {
namespace {

constexpr const char* kSplitExamples =
    "Examples:\n"
    "  muster data split folder:$HOME/pets -o pets-split\n"
    "  muster data split folder:$HOME/pets -o pets-split --ratio 0.9,0.1 --copy\n"
    "  muster data split 'tar:shards/*.tar' -o divided --shard-size 512MiB\n\n"
    "Writes train/CLASS, val/CLASS and test/CLASS; of two shares train and val. Of\n"
    "each class every part has its share; which files these are hangs on the seed.\n"
    "Files are hard links to those that are there, which take no space, unless --copy\n"
    "is said. `muster train --data folder:pets-split` trains on train and tests on\n"
    "test, or on val where there is no test.\n\n"
    "Of tar shards all members of a sample go together, byte by byte, into new shards\n"
    "train-000000.tar, …, val-000000.tar, …, test-000000.tar, …, by the same draw.";

}  // namespace

std::unique_ptr<CLI::App> split_app(SplitFlags& flags) {
  auto app = make_app(
      "data split",
      "Divides a folder of class folders, or tar shards, into training, validation and test.",
      kSplitExamples,
      "muster data split DATA -o FOLDER");
  program::add_value(
      *app, "data,--data", flags.data, "folder:PATH, with a folder for each class, or tar:PATTERN")
      ->type_name("DATA");
  program::add_value(*app, "--data-dir", flags.data_dir, "the path, where it has a comma")
      ->type_name("DIR");
  program::add_value(*app, "-o,--output", flags.output, "the folder that is made")
      ->type_name("FOLDER");
  program::add_value(
      *app, "--ratio", flags.ratio, "shares of train, val and test, or train and val")
      ->type_name("SHARES")
      ->capture_default_str();
  program::add_value(*app, "--seed", flags.seed, "which files are in which part")
      ->type_name("N")
      ->capture_default_str();
  app->add_flag("--copy", flags.copy, "copy the files in place of hard links");
  program::add_value(
      *app, "--shard-size", flags.shard_size, "at most, of a new tar shard: 512MiB [1GiB]")
      ->type_name("BYTES");
  return app;
}

}  // namespace muster::cli
