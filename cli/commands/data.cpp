// `muster data info`: what is in a user's own images or texts, before a training finds out. `muster data
// preview` needs LibTorch, but for its help: it is in cli/torch/commands/data.cpp.
#include <algorithm>
#include <ostream>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/base/text_table.h"
#include "muster/formats/dataset_spec.h"
#include "muster/formats/image/folder_survey.h"
#include "muster/program/line/value.h"

#include "cli/command.h"
#include "cli/dataset/text_info.h"
#include "cli/exec_torch.h"
#include "cli/line/app.h"
#include "cli/line/help_only.h"
#include "cli/line/preview_flags.h"

namespace muster::cli {
namespace {

namespace fs = std::filesystem;
using formats::FolderSurvey;
using formats::SurveyedFile;

constexpr const char* kDataExamples =
    "Examples:\n"
    "  muster data info folder:$HOME/pets\n"
    "  muster data info folder:$HOME/pets --json\n"
    "  muster data info text:reviews.csv,text=review,target=stars\n"
    "  muster data preview folder:$HOME/pets --transform random_horizontal_flip\n\n"
    "Every file is decoded, on all cores. A bad file is one that a training cannot\n"
    "take: cut short, or neither JPEG nor PNG; a damaged one is a JPEG that Pillow\n"
    "takes with grey or wrong pixels. Of texts it shows how long they are, the\n"
    "vocabulary, and the rows that are no samples. `muster data preview --help` has\n"
    "what draws transformed images.";

struct DataWords {
  std::string action, data, data_dir;
  int64_t threads = 0, show = 10;
  bool json = false;
};

std::unique_ptr<CLI::App> data_app(DataWords& words) {
  auto app = make_app("data",
                      "Shows classes, sizes, bad files and balance of your own images and texts.",
                      kDataExamples,
                      "muster data info DATA [OPTIONS]");
  program::add_value(*app, "action", words.action, "info")->type_name("ACTION");
  program::add_value(
      *app, "data", words.data, "folder:PATH or text:FILE, as for muster train --data")
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
    throw usage_error({.refused = words.action.empty()
                                      ? std::string("it is not said what to do with the data")
                                      : concat("muster data has no action \"", words.action, '"'),
                       .hint = "muster data info folder:PATH, or muster data preview --help"});
  }
  if (words.threads < 0 || words.show < 0) {
    throw usage_error({.refused = words.threads < 0 ? "--threads" : "--show",
                       .rule = "0 or more",
                       .value = std::to_string(words.threads < 0 ? words.threads : words.show)});
  }
}

fs::path folder_of(const DataWords& words) {
  const Spec spec = formats::parse_dataset_spec(words.data);
  if (spec.name == "folder" && !words.data_dir.empty()) return words.data_dir;
  const auto path = spec.params.find("path");
  if (spec.name == "folder" && path != spec.params.end()) return path->second;
  throw usage_error(
      {.refused = "muster data info",
       .rule = "it looks at folder:PATH, a folder of images for each class, or text:FILE",
       .value = words.data.empty() ? "no data" : words.data,
       .hint = "a path with a comma: muster data info folder --data-dir PATH"});
}

/// One split.
struct Surveyed {
  std::string name;  ///< "train", "test", or "all"
  formats::ClassFolders files;
  std::vector<SurveyedFile> each;
  FolderSurvey summary;
};

Surveyed survey(std::string name, const fs::path& root, int64_t threads) {
  Surveyed out{.name = std::move(name), .files = formats::list_class_folders(root)};
  out.each = formats::survey_files(out.files, threads);
  out.summary = formats::summary_of(out.files, out.each);
  return out;
}

std::vector<Surveyed> survey_splits(const fs::path& root, int64_t threads) {
  const auto [train, test] = formats::find_split_folders(root);
  if (train == test) return {survey("all", train, threads)};
  return {survey("train", train, threads), survey("test", test, threads)};
}

// JSON. ---------------------------------------------------------------------------------------------

Json range_json(const formats::SideRange& range) {
  return {{"least", range.least}, {"median", range.median}, {"greatest", range.greatest}};
}

Json split_json(const Surveyed& split) {
  const FolderSurvey& all = split.summary;
  Json classes = Json::array(), bad = Json::array(), damaged = Json::array();
  for (const formats::ClassSurvey& one : all.classes)
    classes.push_back(
        {{"name", one.name}, {"files", one.files}, {"bad", one.bad}, {"damaged", one.damaged}});
  for (size_t at = 0; at < split.each.size(); ++at) {
    const SurveyedFile& file = split.each[at];
    if (!file.fault.empty())
      bad.push_back({{"file", split.files.files[at].path}, {"fault", file.fault}});
    if (!file.damage.empty())
      damaged.push_back({{"file", split.files.files[at].path}, {"damage", file.damage}});
  }
  return {{"split", split.name},
          {"folder", split.files.root.string()},
          {"files", all.files},
          {"classes", std::move(classes)},
          {"imbalance", all.imbalance() == 0 ? Json() : Json(all.imbalance())},
          {"jpegs", all.jpegs},
          {"pngs", all.pngs},
          {"greys", all.greys},
          {"cmyks", all.cmyks},
          {"alphas", all.alphas},
          {"wide_greys", all.wide_greys},
          {"width", range_json(all.width)},
          {"height", range_json(all.height)},
          {"bad", std::move(bad)},
          {"damaged", std::move(damaged)}};
}

// Text. ---------------------------------------------------------------------------------------------

std::string count_text(int64_t count, std::string_view one) {
  return concat(count, ' ', one, count == 1 ? "" : "s");
}

std::string class_table(const Surveyed& split, size_t width) {
  std::vector<Column> columns{{"class"}, {"files"}, {"share"}, {"bad"}, {"damaged"}};
  for (const formats::ClassSurvey& one : split.summary.classes) {
    const double share = 100.0 * static_cast<double>(one.files) /
                         static_cast<double>(std::max<int64_t>(split.summary.files, 1));
    columns[0].cells.emplace_back(one.name);
    columns[1].cells.emplace_back(one.files);
    columns[2].cells.emplace_back(fixed(share, 1) + " %");
    columns[3].cells.emplace_back(one.bad);
    columns[4].cells.emplace_back(one.damaged);
  }
  return grid(std::move(columns), width);
}

std::string kinds_text(const FolderSurvey& all) {
  std::vector<std::string> kinds;
  const auto add = [&](int64_t count, std::string_view kind) {
    if (count > 0) kinds.push_back(concat(count, ' ', kind));
  };
  add(all.jpegs, "JPEG");
  add(all.pngs, "PNG");
  add(all.greys, "grey");
  add(all.cmyks, "CMYK");
  add(all.alphas, "with alpha, which is left aside");
  add(all.wide_greys, "grey of 16 bits, of which all above 255 is white");
  return join(kinds, ", ");
}

std::string range_text(const formats::SideRange& range) {
  return concat(range.least, " to ", range.greatest, ", median ", range.median);
}

void list_files(std::ostream& out,
                const Surveyed& split,
                std::string SurveyedFile::*why,
                int64_t show) {
  for (size_t at = 0; at < split.each.size(); ++at) {
    const std::string& text = split.each[at].*why;
    if (text.empty()) continue;
    if (show-- == 0) {
      out << "  …\n";
      return;
    }
    // A fault names its file itself.
    out << "  "
        << printable(why == &SurveyedFile::fault
                         ? text
                         : concat(split.files.path_of(at).string(), ": ", text))
        << '\n';
  }
}

void print_split(std::ostream& out, const Surveyed& split, const DataWords& words, size_t width) {
  const FolderSurvey& all = split.summary;
  out << split.name << ": " << count_text(all.files, "file") << " in " << all.classes.size()
      << (all.classes.size() == 1 ? " class" : " classes") << " below " << split.files.root.string()
      << '\n'
      << class_table(split, width);
  if (all.bad < all.files) {
    out << "images   " << kinds_text(all) << '\n'
        << "width    " << range_text(all.width) << '\n'
        << "height   " << range_text(all.height) << '\n';
  }
  if (all.classes.size() > 1 && all.imbalance() > 0)
    out << "balance  the largest class has " << fixed(all.imbalance(), 1)
        << " times the smallest\n";
  if (all.bad > 0) {
    out << "bad      " << count_text(all.bad, "file")
        << "; bad_files=skip or substitute trains without\n";
    list_files(out, split, &SurveyedFile::fault, words.show);
  }
  if (all.damaged > 0) {
    out << "damaged  " << count_text(all.damaged, "JPEG")
        << "; keep_damaged=true takes them as Pillow does\n";
    list_files(out, split, &SurveyedFile::damage, words.show);
  }
}

int run_data_command(std::span<const std::string> args, program::Console& console) {
  if (!args.empty() && args[0] == "preview") {
    PreviewFlags flags;
    if (const auto over = help_only(*preview_app(flags), args.subspan(1), console)) return *over;
    exec_torch("data", args);
  }
  DataWords words;
  const auto app = data_app(words);
  if (const auto over = program::parse(*app, args, console)) return *over;
  check_action(words);
  const Spec spec = formats::parse_dataset_spec(words.data);
  if (spec.name == "text") {
    show_text_info(console.out(),
                   {.params = spec.params,
                    .data_dir = words.data_dir,
                    .show = words.show,
                    .width = static_cast<size_t>(console.width()),
                    .json = words.json});
    return kDone;
  }
  const fs::path root = folder_of(words);
  const std::vector<Surveyed> splits = survey_splits(root, words.threads);
  if (words.json) {
    Json out = Json::array();
    for (const Surveyed& split : splits) out.push_back(split_json(split));
    console.out() << json_text({{"splits", std::move(out)}}) << '\n';
    return kDone;
  }
  for (const Surveyed& split : splits)
    print_split(console.out(), split, words, static_cast<size_t>(console.width()));
  return kDone;
}

}  // namespace

extern constinit const CommandEntry data_entry{
    "data", "look at your own images and texts: classes, bad files, transforms", &run_data_command};

}  // namespace muster::cli
