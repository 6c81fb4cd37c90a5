// `muster data info`: what is in a user's own images, texts or rows, before a training finds out; and `muster data
// split`. `muster data preview` needs LibTorch, but for its help: it is in cli/torch/commands/data.cpp.
#include <algorithm>
#include <iterator>
#include <ostream>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/formats/dataset_spec.h"
#include "muster/program/line/value.h"

#include "cli/command.h"
#include "cli/dataset/image_info.h"
#include "cli/dataset/row_info.h"
#include "cli/dataset/split_data.h"
#include "cli/dataset/text_info.h"
#include "cli/exec_torch.h"
#include "cli/line/app.h"
#include "cli/line/help_only.h"
#include "cli/line/preview_flags.h"
#include "cli/line/split_flags.h"

namespace muster::cli {
namespace {

constexpr const char* kDataExamples =
    "Examples:\n"
    "  muster data info folder:$HOME/pets\n"
    "  muster data info folder:$HOME/pets --json\n"
    "  muster data info 'tar:shards/train-{000..127}.tar'\n"
    "  muster data info text:reviews.csv,text=review,target=stars\n"
    "  muster data info csv:flowers.csv,target=species\n"
    "  muster data preview folder:$HOME/pets --transform random_horizontal_flip\n"
    "  muster data split folder:$HOME/pets -o pets-split\n\n"
    "Every file is decoded, on all cores. A bad file is one that a training cannot\n"
    "take: cut short, or neither JPEG nor PNG; a damaged one is a JPEG that Pillow\n"
    "takes with grey or wrong pixels. Of texts it shows how long they are, the\n"
    "vocabulary, and the rows that are no samples; of rows of numbers the columns.\n"
    "`muster data preview --help` has what draws transformed images, and\n"
    "`muster data split --help` what divides a folder or shards.";

struct DataWords {
  std::string action, data, data_dir;
  int64_t threads = 0, show = 10;
  bool json = false;
};

std::unique_ptr<CLI::App> data_app(DataWords& words) {
  auto app =
      make_app("data",
               "Shows classes, sizes, bad files and balance of your own images, texts and rows.",
               kDataExamples,
               "muster data info DATA [OPTIONS]");
  program::add_value(*app, "action", words.action, "info")->type_name("ACTION");
  program::add_value(*app,
                     "data",
                     words.data,
                     "folder:PATH, tar:PATTERN, text:FILE or csv:FILE, as for muster train")
      ->type_name("DATA");
  program::add_value(*app, "--data-dir", words.data_dir, "the path, where it has a comma")
      ->type_name("DIR");
  program::add_value(*app, "--threads", words.threads, "that decode [all cores]")->type_name("N");
  program::add_value(*app, "--show", words.show, "bad and damaged files that are listed")
      ->type_name("N")
      ->capture_default_str();
  app->add_flag("--json", words.json, "one JSON object, with all bad and damaged files");
  return app;
}

void check_action(const DataWords& words) {
  if (words.action != "info") {
    throw usage_error(
        {.refused = words.action.empty()
                        ? std::string("it is not said what to do with the data")
                        : concat("muster data has no action \"", words.action, '"'),
         .hint = "muster data info folder:PATH; preview and split have a --help of their own"});
  }
  if (words.threads < 0 || words.show < 0) {
    throw usage_error({.refused = words.threads < 0 ? "--threads" : "--show",
                       .rule = "0 or more",
                       .value = std::to_string(words.threads < 0 ? words.threads : words.show)});
  }
}

/// What `muster data info` looks at a dataset with: this program has no LibTorch, and no dataset's entry.
struct LookedAt {
  std::string_view name;
  void (*show)(std::ostream& out, const Spec& spec, const DataWords& words, size_t width);
  bool needs_path = false;  ///< here; else what shows it says so
};

void show_images(std::ostream& out, const Spec& spec, const DataWords& words, size_t width) {
  show_image_info(out,
                  {.data = spec,
                   .data_dir = words.data_dir,
                   .threads = words.threads,
                   .show = words.show,
                   .width = width,
                   .json = words.json});
}

template <auto Show>
void show_table(std::ostream& out, const Spec& spec, const DataWords& words, size_t width) {
  Show(out,
       {.params = spec.params,
        .data_dir = words.data_dir,
        .show = words.show,
        .width = width,
        .json = words.json});
}

constexpr LookedAt kLookedAt[] = {{"folder", &show_images, true},
                                  {"tar", &show_images, true},
                                  {"text", &show_table<&show_text_info>},
                                  {"csv", &show_table<&show_row_info>}};

/// Null: it is none of those.
const LookedAt* looked_at(std::string_view name) {
  const auto* found = std::ranges::find(kLookedAt, name, &LookedAt::name);
  return found == std::end(kLookedAt) ? nullptr : found;
}

void check_can_be_shown(const DataWords& words, const Spec& spec) {
  const LookedAt* with = looked_at(spec.name);
  if (with != nullptr &&
      (!with->needs_path || !words.data_dir.empty() || spec.params.contains("path")))
    return;
  throw usage_error({.refused = "muster data info",
                     .rule = "it looks at folder:PATH, a folder of images for each class, "
                             "tar:PATTERN, text:FILE, or csv:FILE",
                     .value = words.data.empty() ? "no data" : words.data,
                     .hint = "a path with a comma: muster data info folder --data-dir PATH"});
}

int run_split(std::span<const std::string> args, program::Console& console) {
  SplitFlags flags;
  if (const auto over = program::parse(*split_app(flags), args, console)) return *over;
  if (flags.seed < 0)
    throw usage_error({.refused = "--seed", .rule = "0 or more", .value = concat(flags.seed)});
  const int stopped_by = split_data(console.out(),
                                    [&](const std::string& text) { console.note(text); },
                                    {.data = formats::parse_dataset_spec(flags.data),
                                     .data_dir = flags.data_dir,
                                     .output = flags.output,
                                     .ratio = flags.ratio,
                                     .seed = flags.seed,
                                     .copy = flags.copy,
                                     .shard_size = flags.shard_size,
                                     .width = static_cast<size_t>(console.width())});
  return stopped_by == 0 ? kDone : 128 + stopped_by;  // as a shell has it
}

int run_data_command(std::span<const std::string> args, program::Console& console) {
  if (!args.empty() && args[0] == "preview") {
    PreviewFlags flags;
    if (const auto over = help_only(*preview_app(flags), args.subspan(1), console)) return *over;
    exec_torch("data", args);
  }
  if (!args.empty() && args[0] == "split") return run_split(args.subspan(1), console);
  DataWords words;
  const auto app = data_app(words);
  if (const auto over = program::parse(*app, args, console)) return *over;
  check_action(words);
  const Spec spec = formats::parse_dataset_spec(words.data);
  check_can_be_shown(words, spec);
  looked_at(spec.name)->show(console.out(), spec, words, static_cast<size_t>(console.width()));
  return kDone;
}

}  // namespace

extern constinit const CommandEntry data_entry{
    "data",
    "look at your own data: classes, bad files, transforms; divide them",
    &run_data_command};

}  // namespace muster::cli
