#include "cli/dataset/image_info.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/counted.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/base/text_table.h"
#include "muster/formats/image/folder_data.h"
#include "muster/formats/image/folder_survey.h"
#include "muster/formats/tar/tar_data.h"

#include "cli/dataset/info_parts.h"

namespace muster::cli {
namespace {

using formats::FolderSurvey;
using formats::SurveyedFile;

/// One split.
struct SurveyedImages {
  std::string name;  ///< "train", "test", or "all"
  std::shared_ptr<const formats::ImageSource> images;
  std::vector<formats::BadRow> unusable;  ///< of shards: samples without an image, or a class
  int64_t left_aside = 0;
  std::vector<SurveyedFile> each;
  FolderSurvey summary;
};

/// What is asked for once for all splits.
struct ImageInfo {
  ImageInfoOptions shown;
  bool is_folder = false;
  int64_t least_side = 0;  ///< of JPEGs, with decode=fast

  std::string_view each() const { return is_folder ? "file" : "sample"; }
};

void look_through(SurveyedImages& split, int64_t threads) {
  split.each = formats::survey_images(*split.images, threads);
  split.summary = formats::summary_of(*split.images, split.each);
}

std::vector<SurveyedImages> folder_splits(const ImageInfoOptions& options) {
  const auto said = formats::folder_data_options(options.data.params, options.data_dir);
  const auto [train, test] = formats::find_split_folders(said.path);
  const auto split = [](std::string name, formats::ClassFolders files) {
    return SurveyedImages{.name = std::move(name),
                          .images = std::make_shared<formats::FolderImages>(std::move(files))};
  };
  formats::ClassFolders trained = formats::list_class_folders(train);
  if (train == test) return {split("all", std::move(trained))};
  formats::ClassFolders tested = formats::list_class_folders(test);
  formats::require_known_classes(tested, trained.classes);
  return {split("train", std::move(trained)), split("test", std::move(tested))};
}

std::vector<SurveyedImages> tar_splits(const ImageInfoOptions& options) {
  const auto said = formats::tar_data_options(options.data.params, options.data_dir);
  const auto [train, test] = formats::find_shard_splits(said.path, said.test);
  std::vector<SurveyedImages> splits;
  std::optional<formats::TarClasses> classes;
  for (const auto* shards : {&train, &test}) {
    if (shards->empty()) continue;
    formats::FoundTar found = formats::find_tar_samples(
        said,
        *shards,
        classes,
        {.may_lack_labels = false, .keeps_bad = true, .threads = options.threads});
    classes = found.classes;
    splits.push_back({.name = test.empty()       ? "all"
                              : shards == &train ? "train"
                                                 : "test",
                      .unusable = found.index.bad,
                      .left_aside = found.index.left_aside});
    splits.back().images =
        std::make_shared<formats::TarImages>(std::move(found.index), std::move(found.classes));
  }
  return splits;
}

// JSON. ---------------------------------------------------------------------------------------------

Json range_json(const formats::SideRange& range) {
  return {{"least", range.least}, {"median", range.median}, {"greatest", range.greatest}};
}

/// JPEGs that decode=fast decodes at a part of their size.
int64_t count_shrunk(const SurveyedImages& split, int64_t least_side) {
  return std::ranges::count_if(split.each, [&](const SurveyedFile& file) {
    const formats::ImageHeader& header = file.header;
    return file.fault.empty() && header.format == formats::ImageFormat::kJpeg &&
           formats::jpeg_shrink(header.height, header.width, least_side) > 1;
  });
}

Json split_json(const SurveyedImages& split, const ImageInfo& info) {
  const FolderSurvey& all = split.summary;
  Json classes = Json::array(), bad = Json::array(), damaged = Json::array();
  for (const formats::ClassSurvey& one : all.classes)
    classes.push_back(
        {{"name", one.name}, {"files", one.files}, {"bad", one.bad}, {"damaged", one.damaged}});
  for (size_t at = 0; at < split.each.size(); ++at) {
    const SurveyedFile& file = split.each[at];
    if (!file.fault.empty())
      bad.push_back({{"file", split.images->name(at)}, {"fault", file.fault}});
    if (!file.damage.empty())
      damaged.push_back({{"file", split.images->name(at)}, {"damage", file.damage}});
  }
  for (const formats::BadRow& sample : split.unusable)
    bad.push_back({{"file", sample.place}, {"fault", sample.why}});
  return {{"split", split.name},
          {info.is_folder ? "folder" : "shards", split.images->place()},
          {"files", all.files},
          {"classes", std::move(classes)},
          {"imbalance", all.imbalance() == 0 ? Json() : Json(all.imbalance())},
          {"decode", info.least_side > 0 ? "fast" : "exact"},
          {"jpegs", all.jpegs},
          {"jpegs_decoded_smaller", count_shrunk(split, info.least_side)},
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

std::string class_table(const SurveyedImages& split, const ImageInfo& info) {
  std::vector<Column> columns{
      {"class"}, {concat(info.each(), 's')}, {"share"}, {"bad"}, {"damaged"}};
  for (const formats::ClassSurvey& one : split.summary.classes) {
    columns[0].cells.emplace_back(printable(one.name));
    columns[1].cells.emplace_back(one.files);
    columns[2].cells.emplace_back(share_text(one.files, split.summary.files));
    columns[3].cells.emplace_back(one.bad);
    columns[4].cells.emplace_back(one.damaged);
  }
  return grid(std::move(columns), info.shown.width);
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
                const SurveyedImages& split,
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
        << printable(why == &SurveyedFile::fault ? text
                                                 : concat(split.images->full_name(at), ": ", text))
        << '\n';
  }
}

/// Samples of shards that cannot be used, whatever their images are.
void print_unusable(std::ostream& out, const SurveyedImages& split, int64_t show) {
  if (split.left_aside > 0)
    out << "aside    " << counted(split.left_aside, "sample")
        << " with neither an image nor a class\n";
  if (split.unusable.empty()) return;
  out << "unusable " << counted(static_cast<int64_t>(split.unusable.size()), "sample")
      << "; bad_files=skip trains without\n";
  list_bad(out, split.unusable, show);
}

void print_split(std::ostream& out, const SurveyedImages& split, const ImageInfo& info) {
  const FolderSurvey& all = split.summary;
  const int64_t show = info.shown.show;
  out << split.name << ": " << counted(all.files, info.each()) << " in " << all.classes.size()
      << (all.classes.size() == 1 ? " class" : " classes") << (info.is_folder ? " below " : " of ")
      << split.images->place() << '\n'
      << class_table(split, info);
  if (all.bad < all.files) {
    out << "images   " << kinds_text(all) << '\n'
        << "width    " << range_text(all.width) << '\n'
        << "height   " << range_text(all.height) << '\n';
  }
  if (info.least_side > 0)
    out << "decode   fast: " << counted(count_shrunk(split, info.least_side), "JPEG")
        << " at 1/2, 1/4 or 1/8, with both sides " << info.least_side << " or more\n";
  if (all.classes.size() > 1 && all.imbalance() > 0)
    out << "balance  the largest class has " << fixed(all.imbalance(), 1)
        << " times the smallest\n";
  if (all.bad > 0) {
    out << "bad      " << counted(all.bad, info.each())
        << "; bad_files=skip or substitute trains without\n";
    list_files(out, split, &SurveyedFile::fault, show);
  }
  if (all.damaged > 0) {
    out << "damaged  " << counted(all.damaged, "JPEG")
        << "; keep_damaged=true takes them as Pillow does\n";
    list_files(out, split, &SurveyedFile::damage, show);
  }
  print_unusable(out, split, show);
}

}  // namespace

void show_image_info(std::ostream& out, const ImageInfoOptions& options) {
  ImageInfo info{.shown = options, .is_folder = options.data.name == "folder"};
  info.least_side =
      info.is_folder
          ? least_side_of(formats::folder_data_options(options.data.params, options.data_dir))
          : least_side_of(formats::tar_data_options(options.data.params, options.data_dir));
  std::vector<SurveyedImages> splits =
      info.is_folder ? folder_splits(options) : tar_splits(options);
  for (SurveyedImages& split : splits) look_through(split, options.threads);
  if (options.json) {
    Json json = Json::array();
    for (const SurveyedImages& split : splits) json.push_back(split_json(split, info));
    out << json_text({{"splits", std::move(json)}}) << '\n';
    return;
  }
  for (const SurveyedImages& split : splits) print_split(out, split, info);
}

}  // namespace muster::cli
