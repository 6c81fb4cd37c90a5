#include "cli/dataset/split_data.h"

#include <atomic>
#include <utility>
#include <vector>

#include "muster/base/ending_signals.h"
#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/base/text_table.h"
#include "muster/formats/image/divided_folders.h"
#include "muster/formats/image/folder_data.h"

namespace muster::cli {
namespace {

namespace fs = std::filesystem;

std::vector<double> shares_in(const std::string& ratio) {
  std::vector<double> shares;
  for (const std::string& part : split(ratio, ',')) {
    const auto share = to_double(trim(part));
    if (!share)
      throw usage_error({.refused = "--ratio",
                         .rule = "numbers with commas between them, as in 0.8,0.1,0.1",
                         .value = ratio});
    shares.push_back(*share);
  }
  if (shares.size() == 2 || shares.size() == 3) return shares;
  throw usage_error({.refused = "--ratio",
                     .rule = "two shares, of train and val, or three, of train, val and test",
                     .value = ratio});
}

formats::ClassFolders files_to_divide(const SplitDataOptions& options) {
  const auto path = options.data.params.find("path");
  const bool has_path = !options.data_dir.empty() || path != options.data.params.end();
  if (options.data.name != "folder" || !has_path) {
    throw usage_error({.refused = "muster data split",
                       .rule = "it divides folder:PATH, a folder with a folder for each class",
                       .value = options.data.name.empty() ? "no data" : options.data.name});
  }
  const fs::path root = formats::folder_data_options(options.data.params, options.data_dir).path;
  formats::require_apart(root, options.output);
  const auto [train, test] = formats::find_split_folders(root);
  if (train != test) {
    throw usage_error(
        {.refused = concat("folder of images ", root.string()),
         .rule = "it is not divided yet",
         .value = concat(train.filename().string(), " and ", test.filename().string()),
         .hint = concat("to divide the training split: folder:", train.string())});
  }
  return formats::list_class_folders(train);
}

std::atomic<int> split_stopped_by{0};
static_assert(std::atomic<int>::is_always_lock_free, "it is written by a signal handler");

/// While it lives, the first signal that asks this process to end is only noted.
class SplitSignals {
 public:
  SplitSignals() {
    split_stopped_by = 0;
    before_ = note_ending_signals([](int number) { split_stopped_by = number; });
  }
  ~SplitSignals() { restore_ending_signals(before_); }
  SplitSignals(const SplitSignals&) = delete;
  SplitSignals& operator=(const SplitSignals&) = delete;

 private:
  EndingActions before_{};
};

}  // namespace

int split_data(std::ostream& out,
               const std::function<void(const std::string&)>& note,
               const SplitDataOptions& options) {
  if (options.output.empty())
    throw usage_error({.refused = "muster data split without -o FOLDER",
                       .hint = "muster data split folder:PATH -o FOLDER"});
  const std::vector<double> shares = shares_in(options.ratio);
  const formats::ClassFolders files = files_to_divide(options);
  const auto part_of = formats::divide_files(files, shares, static_cast<uint64_t>(options.seed));
  std::vector<std::string> names{"train", "val"};
  if (shares.size() == 3) names.emplace_back("test");
  const SplitSignals signals;
  for (const fs::path& left : formats::remove_left_behind(options.output))
    note(concat("removed ", left.string(), ", which a division that was killed had left"));
  if (!formats::write_divided_folders(
          files,
          part_of,
          names,
          options.output,
          options.copy ? formats::FileTransfer::kCopy : formats::FileTransfer::kLink,
          [] { return split_stopped_by != 0; })) {
    note("interrupted: nothing is written");
    return split_stopped_by;
  }

  std::vector<std::vector<int64_t>> counts(names.size(),
                                           std::vector<int64_t>(files.classes.size()));
  for (size_t at = 0; at < part_of.size(); ++at)
    ++counts[part_of[at]][static_cast<size_t>(files.files[at].label)];
  std::vector<Column> columns{{"class"}};
  for (const std::string& name : files.classes) columns[0].cells.emplace_back(printable(name));
  for (size_t part = 0; part < names.size(); ++part) {
    columns.push_back({names[part]});
    for (const int64_t count : counts[part]) columns.back().cells.emplace_back(count);
  }
  out << options.output.string() << ": " << files.files.size() << " files in "
      << files.classes.size() << (files.classes.size() == 1 ? " class, " : " classes, ")
      << (options.copy ? "copies" : "hard links") << '\n'
      << grid(std::move(columns), options.width);
  return 0;
}

}  // namespace muster::cli
