#include "muster/formats/tar/divided_shards.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/path_names.h"
#include "muster/base/text.h"
#include "muster/formats/partial_folder.h"
#include "muster/formats/tar/byte_source.h"
#include "muster/formats/tar/tar_reader.h"

namespace muster::formats {
namespace {

namespace fs = std::filesystem;

/// A shard that is as long as it was when its headers were read.
FileBytes open_unchanged(const TarShard& shard) {
  FileBytes bytes(shard.path);
  if (bytes.size() == shard.bytes) return bytes;
  throw environment_error({.refused = concat("tar shard ", shard.path.string()),
                           .rule = concat("it stays as it was, of ", shard.bytes, " bytes"),
                           .value = std::to_string(bytes.size())});
}

std::string place_of_sample(const TarSamples& samples, const TarSample& sample) {
  return place_of(samples.shards[sample.shard].path.string(),
                  {.name = sample.image, .header = sample.header});
}

void check_divisible(const std::string& shard, const TarMember& member) {
  if (member.kind == TarKind::kLink) {
    throw environment_error({.refused = place_of(shard, member),
                             .rule = "a member of a sample is a file, which has its bytes with it",
                             .value = "a link, whose file may come into another shard",
                             .hint = "tar --dereference --hard-dereference writes files in their "
                                     "place"});
  }
  if (!member.has_globals) return;
  throw environment_error(
      {.refused = place_of(shard, member),
       .rule = "only headers of its own say something of a member that goes to another shard",
       .value = "a global header in front, with more than a comment",
       .hint = "make the archive anew: tar --format=gnu or --format=ustar"});
}

std::vector<std::string> names_of(const TarClasses& classes) {
  std::vector<std::string> names = classes.names;
  for (auto number = static_cast<int64_t>(names.size()); number < classes.count; ++number)
    names.push_back(std::to_string(number));
  return names;
}

/// The samples, by the names that their members share.
class SampleList {
 public:
  explicit SampleList(const FoundTar& found) {
    out_.shards = found.index.shards;
    out_.are_labelled = std::ranges::any_of(found.index.images,
                                            [](const TarImage& image) { return image.label >= 0; });
    out_.classes =
        out_.are_labelled ? names_of(found.classes) : std::vector<std::string>{std::string()};
    for (const TarImage& image : found.index.images) add(image);
  }

  TarSamples read() {
    for (size_t shard = 0; shard < out_.shards.size(); ++shard) read_shard(shard);
    return std::move(out_);
  }

 private:
  void add(const TarImage& image) {
    const auto [at, is_new] =
        numbers_.emplace(sample_and_part(image.name).first, out_.samples.size());
    out_.samples.push_back({.image = image.name,
                            .shard = image.shard,
                            .header = image.header,
                            .label = std::max<int64_t>(image.label, 0)});
    if (is_new) return;
    throw environment_error(
        {.refused = place_of_sample(out_, out_.samples.back()),
         .rule = "samples that are divided have names of their own, up to the first dot",
         .value = concat("another one is ", place_of_sample(out_, out_.samples[at->second])),
         .hint = "name a shard once; give samples of several shards names with a folder in front: "
                 "a/1.jpg, b/1.jpg"});
  }

  void read_shard(size_t shard) {
    const std::string name = out_.shards[shard].path.string();
    const FileBytes bytes = open_unchanged(out_.shards[shard]);
    TarReader reader(bytes, name);
    for (TarMember member; reader.next(member);) {
      if (member.kind == TarKind::kOther) continue;
      const auto [key, part] = sample_and_part(member.name);
      if (part.empty()) {
        ++out_.other_files;
        continue;
      }
      const auto at = numbers_.find(key);
      // A sample that the index has told of: bad, or left aside.
      if (at == numbers_.end() || out_.samples[at->second].shard != shard) continue;
      check_divisible(name, member);
      TarSample& sample = out_.samples[at->second];
      if (sample.pieces.empty() || sample.pieces.back().end != member.begin)
        sample.pieces.push_back({member.begin, member.begin});
      sample.pieces.back().end = member.end;
      sample.bytes += member.end - member.begin;
    }
  }

  TarSamples out_;
  std::unordered_map<std::string, size_t> numbers_;  // in out_.samples
};

/// The shards of one part, one after the other.
class ShardWriter {
 public:
  ShardWriter(const TarSamples& samples, fs::path folder, std::string name, int64_t most_bytes)
      : samples_(samples),
        folder_(std::move(folder)),
        name_(std::move(name)),
        most_bytes_(most_bytes) {}

  void add(const TarSample& sample) {
    if (shard_ && written_ + sample.bytes + kTarEndBytes > most_bytes_) end_shard();
    if (!shard_) begin_shard();
    if (!source_ || source_number_ != sample.shard) {
      source_.emplace(open_unchanged(samples_.shards[sample.shard]));
      source_number_ = sample.shard;
    }
    for (const TarPiece& piece : sample.pieces) copy(piece);
    written_ += sample.bytes;
  }

  /// How many shards there are.
  int64_t end() {
    if (shard_) end_shard();
    return count_;
  }

 private:
  void begin_shard() {
    const std::string number = std::to_string(count_++);
    const std::string zeros(6 - std::min<size_t>(number.size(), 6), '0');
    shard_.emplace(folder_ / concat(name_, '-', zeros, number, ".tar"));
    written_ = 0;
  }

  void end_shard() {
    shard_->write(std::string(static_cast<size_t>(kTarEndBytes), '\0'));
    shard_->commit();
    shard_.reset();
  }

  void copy(const TarPiece& piece) {
    constexpr int64_t kBytesAtOnce = 1 << 20;
    for (int64_t at = piece.begin; at < piece.end; at += kBytesAtOnce) {
      buffer_.resize(static_cast<size_t>(std::min(kBytesAtOnce, piece.end - at)));
      source_->read(at, buffer_);
      shard_->write(buffer_);
    }
  }

  const TarSamples& samples_;
  fs::path folder_;
  std::string name_;
  int64_t most_bytes_;
  int64_t count_ = 0, written_ = 0;
  std::optional<AtomicFile> shard_;
  std::optional<FileBytes> source_;
  uint32_t source_number_ = 0;
  std::string buffer_;
};

void require_fitting(const TarSamples& samples, int64_t most_bytes) {
  const auto largest = std::ranges::max_element(samples.samples, {}, &TarSample::bytes);
  if (largest == samples.samples.end() || largest->bytes + kTarEndBytes <= most_bytes) return;
  throw usage_error(
      {.refused = concat("shards of at most ", most_bytes, " bytes"),
       .rule = concat("each sample fits into one, with ", kTarEndBytes, " bytes of the end"),
       .value = concat(largest->bytes, " bytes of ", place_of_sample(samples, *largest)),
       .hint = concat("say ", largest->bytes + kTarEndBytes, " or more")});
}

}  // namespace

TarSamples list_tar_samples(const FoundTar& found) { return SampleList(found).read(); }

std::vector<size_t> divide_samples(const TarSamples& samples,
                                   const std::vector<double>& shares,
                                   uint64_t seed) {
  std::vector<size_t> order(samples.samples.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(
      order, {}, [&](size_t at) -> const std::string& { return samples.samples[at].image; });
  std::vector<int64_t> labels;
  labels.reserve(order.size());
  for (const size_t at : order) labels.push_back(samples.samples[at].label);
  const std::vector<size_t> drawn = divide_labels(labels, samples.classes, shares, seed);
  std::vector<size_t> part_of(order.size());
  for (size_t i = 0; i < order.size(); ++i) part_of[order[i]] = drawn[i];
  return part_of;
}

std::optional<std::vector<int64_t>> write_divided_shards(const TarSamples& samples,
                                                         const std::vector<size_t>& part_of,
                                                         const std::vector<std::string>& names,
                                                         const fs::path& said,
                                                         int64_t most_bytes,
                                                         const DivisionStops& stops) {
  const fs::path target = without_slash(said);
  for (const TarShard& shard : samples.shards) require_apart(shard.path, target);
  require_absent(target);
  require_fitting(samples, most_bytes);
  PartialFolder partial(target);
  std::vector<int64_t> counts;
  for (size_t part = 0; part < names.size(); ++part) {
    ShardWriter writer(samples, partial.path(), names[part], most_bytes);
    for (size_t at = 0; at < part_of.size(); ++at) {
      if (part_of[at] != part) continue;
      if (stops && stops()) return std::nullopt;
      writer.add(samples.samples[at]);
    }
    counts.push_back(writer.end());
  }
  partial.rename_to(target);
  return counts;
}

}  // namespace muster::formats
