// `muster data preview`: what a chain of transforms does to images, as a PNG.
#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/data/transform/transformed.h"
#include "muster/program/line/parse.h"
#include "muster/train/classifier/train_data.h"
#include "muster/train/program/preview.h"

#include "cli/command.h"
#include "cli/line/preview_flags.h"

namespace muster::cli {
namespace {

data::Split asked_split(const std::string& name) {
  for (const data::Split split : {data::Split::kTrain, data::Split::kTest}) {
    if (data::to_string(split) == name) return split;
  }
  throw usage_error({.refused = "--split", .rule = "it is train or test", .value = name});
}

void check_flags(const PreviewFlags& flags) {
  if (flags.data.empty())
    throw usage_error({.refused = "muster data preview without data",
                       .hint = "muster data preview folder:PATH --transform CHAIN"});
  if (flags.seed < 0)
    throw usage_error({.refused = "--seed", .rule = "0 or more", .value = concat(flags.seed)});
  if (flags.output.extension() != ".png")
    throw usage_error(
        {.refused = "--output", .rule = "its name ends in .png", .value = flags.output.string()});
}

std::string count_of(int64_t count, const std::string& what) {
  return concat(count, ' ', what, count == 1 ? "" : "s");
}

int data_command(std::span<const std::string> args, program::Console& console) {
  PreviewFlags flags;
  const auto words = args.subspan(std::min<size_t>(args.size(), 1));  // behind "preview"
  if (const auto over = program::parse(*preview_app(flags), words, console)) return *over;
  check_flags(flags);
  if (flags.transform == "none") flags.transform.clear();
  const auto steps = data::parse_transforms(flags.transform);
  const auto dataset = train::open_split(flags.data, flags.data_dir, asked_split(flags.split));
  track::ContactSheet sheet = train::preview_sheet(dataset,
                                                   steps,
                                                   {.count = flags.count,
                                                    .draws = flags.draws,
                                                    .seed = static_cast<uint64_t>(flags.seed),
                                                    .epoch = flags.epoch});
  sheet.title = flags.data;
  sheet.notes = {
      flags.transform.empty() ? "no transform" : flags.transform,
      concat(flags.split, ", ", count_of(dataset->size(), "sample"), ", seed ", flags.seed)};
  write_file_atomic(flags.output, track::contact_sheet_png(sheet));
  console.note(concat(flags.output.string(),
                      ": ",
                      count_of(static_cast<int64_t>(sheet.rows.size()), "sample"),
                      ", ",
                      count_of(static_cast<int64_t>(sheet.headings.size()) - 1, "epoch"),
                      " each"));
  return kDone;
}

}  // namespace

extern constinit const CommandEntry data_entry{"data", "draw transformed images", &data_command};

}  // namespace muster::cli
