#include "cli/dataset/split_data.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <numeric>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "muster/base/ending_signals.h"
#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/base/text_table.h"
#include "muster/formats/image/divided_folders.h"
#include "muster/formats/image/folder_data.h"
#include "muster/formats/tar/divided_shards.h"

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

/// Nothing left behind by others, then `write`, which is told whether to stop; what it was stopped by, else 0.
int write_unless_stopped(const fs::path& output,
                         const SplitNote& note,
                         const std::function<bool(const formats::DivisionStops&)>& write) {
  const SplitSignals signals;
  for (const fs::path& left : formats::remove_left_behind(output))
    note(concat("removed ", left.string(), ", which a division that was killed had left"));
  if (write([] { return split_stopped_by != 0; })) return 0;
  note("interrupted: nothing is written");
  return split_stopped_by;
}

/// How many of each class are in each part.
struct PartCounts {
  std::vector<std::string> classes, parts;
  std::vector<std::vector<int64_t>> of_part;

  PartCounts(std::vector<std::string> classes_given, std::vector<std::string> parts_given)
      : classes(std::move(classes_given)),
        parts(std::move(parts_given)),
        of_part(parts.size(), std::vector<int64_t>(classes.size())) {}

  std::string in_classes() const {
    return concat(" in ", classes.size(), classes.size() == 1 ? " class, " : " classes, ");
  }
  std::string table(size_t width) const {
    std::vector<Column> columns{{"class"}};
    for (const std::string& name : classes) columns[0].cells.emplace_back(printable(name));
    for (size_t part = 0; part < parts.size(); ++part) {
      columns.push_back({parts[part]});
      for (const int64_t count : of_part[part]) columns.back().cells.emplace_back(count);
    }
    return grid(std::move(columns), width);
  }
};

std::vector<std::string> part_names(size_t count) {
  std::vector<std::string> names{"train", "val"};
  if (count == 3) names.emplace_back("test");
  return names;
}

int split_folder(std::ostream& out, const SplitNote& note, const SplitDataOptions& options) {
  const std::vector<double> shares = shares_in(options.ratio);
  if (!options.shard_size.empty()) {
    throw usage_error({.refused = "--shard-size",
                       .rule = "it is of the shards that tar:PATTERN is divided into",
                       .value = concat("folder:PATH and ", options.shard_size)});
  }
  const formats::ClassFolders files = files_to_divide(options);
  const auto part_of = formats::divide_files(files, shares, static_cast<uint64_t>(options.seed));
  PartCounts counts(files.classes, part_names(shares.size()));
  const auto write = [&](const formats::DivisionStops& stops) {
    return formats::write_divided_folders(
        files,
        part_of,
        counts.parts,
        options.output,
        options.copy ? formats::FileTransfer::kCopy : formats::FileTransfer::kLink,
        stops);
  };
  if (const int stopped_by = write_unless_stopped(options.output, note, write)) return stopped_by;
  for (size_t at = 0; at < part_of.size(); ++at)
    ++counts.of_part[part_of[at]][static_cast<size_t>(files.files[at].label)];
  out << options.output.string() << ": " << files.files.size() << " files" << counts.in_classes()
      << (options.copy ? "copies" : "hard links") << '\n'
      << counts.table(options.width);
  return 0;
}

constexpr int64_t kShardBytes = int64_t{1} << 30;

int64_t shard_bytes_in(const std::string& said) {
  if (said.empty()) return kShardBytes;
  constexpr std::pair<std::string_view, int64_t> kUnits[] = {
      {"KiB", int64_t{1} << 10}, {"MiB", int64_t{1} << 20}, {"GiB", int64_t{1} << 30}, {"", 1}};
  for (const auto& [unit, bytes] : kUnits) {
    if (!said.ends_with(unit)) continue;
    const auto number = to_int(std::string_view(said).substr(0, said.size() - unit.size()));
    if (!number || *number < 1 || *number > (int64_t{1} << 50) / bytes) break;
    return *number * bytes;
  }
  throw usage_error({.refused = "--shard-size",
                     .rule = "a whole number of bytes, KiB, MiB or GiB, at most 1048576GiB",
                     .value = said,
                     .hint = "--shard-size 512MiB"});
}

formats::TarSamples samples_to_divide(const SplitNote& note, const SplitDataOptions& options) {
  for (const char* drawn : {"test_fraction", "split_seed"}) {
    if (!options.data.params.contains(drawn)) continue;
    throw usage_error({.refused = concat(drawn, " of tar shards that are divided"),
                       .rule = "shares and draw are said by flags",
                       .hint = "--ratio 0.8,0.1,0.1 --seed 0"});
  }
  const auto said = formats::tar_data_options(options.data.params, options.data_dir);
  std::error_code ignored;
  if (fs::is_directory(said.path, ignored)) formats::require_apart(said.path, options.output);
  const auto [shards, test] = formats::find_shard_splits(said.path, said.test);
  if (!test.empty()) {
    throw usage_error({.refused = concat("tar shards ", said.path),
                       .rule = "they are not divided yet",
                       .value = concat("shards of training, ",
                                       shards[0].filename().string(),
                                       ", and of test, ",
                                       test[0].filename().string()),
                       .hint = "name those of the training split alone: 'tar:DIR/train-*.tar'"});
  }
  const formats::FoundTar found =
      formats::find_tar_samples(said, shards, std::nullopt, {.may_lack_labels = true});
  for (const std::string& remark : formats::remarks_of(found.index)) note(remark);
  formats::TarSamples samples = formats::list_tar_samples(found);
  if (!samples.are_labelled && said.label != "auto") {
    throw usage_error({.refused = concat("tar shards ", said.path),
                       .rule = "samples have the member that says their class",
                       .value = concat("none has label=", said.label),
                       .hint = "without label= it is looked for: cls, or json"});
  }
  if (!samples.are_labelled) note("no sample says a class: each part is drawn from all of them");
  if (samples.other_files > 0)
    note(concat(samples.other_files,
                samples.other_files == 1 ? " file that is" : " files that are",
                " part of no sample",
                samples.other_files == 1 ? " is" : " are",
                " left out"));
  return samples;
}

int split_shards(std::ostream& out, const SplitNote& note, const SplitDataOptions& options) {
  const std::vector<double> shares = shares_in(options.ratio);
  const int64_t most_bytes = shard_bytes_in(options.shard_size);
  if (options.copy) {
    throw usage_error({.refused = "--copy",
                       .rule = "it is for folder:PATH; new shards are always copies",
                       .value = options.data.name});
  }
  const formats::TarSamples samples = samples_to_divide(note, options);
  const auto part_of =
      formats::divide_samples(samples, shares, static_cast<uint64_t>(options.seed));
  PartCounts counts(samples.classes, part_names(shares.size()));
  std::vector<int64_t> shards;
  const auto write = [&](const formats::DivisionStops& stops) {
    auto written = formats::write_divided_shards(
        samples, part_of, counts.parts, options.output, most_bytes, stops);
    if (written) shards = *std::move(written);
    return !shards.empty();
  };
  if (const int stopped_by = write_unless_stopped(options.output, note, write)) return stopped_by;
  for (size_t at = 0; at < part_of.size(); ++at)
    ++counts.of_part[part_of[at]][static_cast<size_t>(samples.samples[at].label)];
  const int64_t count = std::accumulate(shards.begin(), shards.end(), int64_t{0});
  out << options.output.string() << ": " << samples.samples.size() << " samples"
      << counts.in_classes() << count << (count == 1 ? " shard" : " shards") << '\n'
      << counts.table(options.width);
  return 0;
}

struct Divided {
  std::string_view name;
  int (*split)(std::ostream& out, const SplitNote& note, const SplitDataOptions& options);
};

constexpr Divided kDivided[] = {{"folder", &split_folder}, {"tar", &split_shards}};

}  // namespace

int split_data(std::ostream& out, const SplitNote& note, const SplitDataOptions& options) {
  if (options.output.empty())
    throw usage_error({.refused = "muster data split without -o FOLDER",
                       .hint = "muster data split folder:PATH -o FOLDER"});
  const auto* const with = std::ranges::find(kDivided, options.data.name, &Divided::name);
  if (with == std::end(kDivided) ||
      (options.data_dir.empty() && !options.data.params.contains("path"))) {
    throw usage_error({.refused = "muster data split",
                       .rule = "it divides folder:PATH, a folder with a folder for each class, and "
                               "tar:PATTERN, shards",
                       .value = options.data.name.empty() ? "no data" : options.data.name});
  }
  return with->split(out, note, options);
}

}  // namespace muster::cli
