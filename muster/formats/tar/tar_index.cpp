#include "muster/formats/tar/tar_index.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <optional>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/formats/tar/said_class.h"
#include "muster/formats/tar/tar_reader.h"

namespace muster::formats {
namespace {

constexpr size_t kPartsNamed = 6;

/// What is known of a sample while its shard is read.
struct DraftSample {
  TarMember first;                 // of its members, for errors
  std::vector<std::string> parts;  // all of them
  std::optional<TarMember> image;
  int said_rank = 0;  // 0: no class is said
  SaidClass said;
  TarMember said_by;
  std::string fault;  // another one
  TarMember faulty;

  void set_fault(std::string why, const TarMember& member) {
    if (!fault.empty()) return;
    fault = std::move(why);
    faulty = member;
  }
};

/// "b.jpg" of a sample whose file is called "a.b.jpg": there the name ends too early.
bool has_dot_before_image(const std::string& part) {
  const size_t dot = part.rfind('.');
  return dot != std::string::npos && is_image_part(std::string_view(part).substr(dot + 1));
}

std::string why_without_image(const DraftSample& sample) {
  std::vector<std::string> named(
      sample.parts.begin(),
      sample.parts.begin() + static_cast<ptrdiff_t>(std::min(sample.parts.size(), kPartsNamed)));
  if (sample.parts.size() > named.size()) named.emplace_back("…");
  return concat("its sample has no jpg, jpeg or png, but ",
                join(named, ", "),
                std::ranges::any_of(sample.parts, has_dot_before_image)
                    ? "; the name of a sample ends at the first dot of the file's name"
                    : "");
}

/// The samples of one shard.
class ShardReader {
 public:
  ShardReader(const std::filesystem::path& path, const TarIndexOptions& options)
      : name_(path.string()),
        may_lack_labels_(options.may_lack_labels),
        label_(options.label),
        bytes_(path),
        reader_(bytes_, name_) {}

  /// As number `shard` of the index.
  TarIndex read(uint32_t shard) {
    for (TarMember member; reader_.next(member);) {
      auto [sample, part] = sample_and_part(member.name);
      if (part.empty() || member.kind == TarKind::kOther) continue;
      const auto [at, is_new] = numbers_.emplace(std::move(sample), samples_.size());
      if (is_new) samples_.push_back({.first = member});
      add_part(samples_[at->second], std::move(part), member);
    }
    TarIndex out{.shards = {{name_, bytes_.size()}}};
    for (DraftSample& sample : samples_) add_sample(sample, shard, out);
    return out;
  }

 private:
  void add_part(DraftSample& sample, std::string part, const TarMember& member) {
    if (std::ranges::find(sample.parts, part) != sample.parts.end()) {
      throw environment_error(
          {.refused = place_of(name_, member),
           .rule = "a sample has one member of each name",
           .value = concat("another ", part, " of its sample lies before it"),
           .hint = "give each sample a name of its own, up to the first dot of its files' names"});
    }
    const int rank = label_.rank(part);
    const bool is_image = is_image_part(part);
    if ((is_image || rank > 0) && member.kind == TarKind::kLink) {
      sample.set_fault(
          "it is a link, which is not followed; tar --dereference --hard-dereference "
          "writes files in their place",
          member);
    } else if (is_image) {
      if (sample.image)
        sample.set_fault(concat("its sample has another image, ", sample.image->name), member);
      sample.image = member;
    } else if (rank > sample.said_rank) {
      sample.said = class_in(part, member);
      sample.said_by = member;
      sample.said_rank = rank;
    }
    sample.parts.push_back(std::move(part));
  }

  SaidClass class_in(const std::string& part, const TarMember& member) {
    const int64_t most = LabelPart::most_bytes(part);
    if (member.size <= most) return label_.read(part, reader_.contents(member, most));
    return {.fault = concat("it says a class in at most ", most, " bytes, and has ", member.size)};
  }

  void add_sample(DraftSample& sample, uint32_t shard, TarIndex& out) {
    if (!sample.image && sample.said_rank == 0 && sample.fault.empty() &&
        std::ranges::none_of(sample.parts, has_dot_before_image)) {
      ++out.left_aside;
      return;
    }
    if (!sample.said.fault.empty()) sample.set_fault(sample.said.fault, sample.said_by);
    if (!sample.image) sample.set_fault(why_without_image(sample), sample.first);
    if (sample.said_rank == 0 && !may_lack_labels_)
      sample.set_fault("its sample has no member that says its class",
                       sample.image ? *sample.image : sample.first);
    if (!sample.fault.empty()) {
      out.bad.push_back({place_of(name_, sample.faulty), std::move(sample.fault)});
      return;
    }
    TarMember& image = *sample.image;
    out.images.push_back({.name = std::move(image.name),
                          .shard = shard,
                          .header = image.header,
                          .offset = image.offset,
                          .size = image.size,
                          .said = std::move(sample.said.text)});
  }

  std::string name_;
  bool may_lack_labels_;
  LabelPart label_;
  FileBytes bytes_;
  TarReader reader_;
  std::unordered_map<std::string, size_t> numbers_;
  std::vector<DraftSample> samples_;
};

/// What became of a shard.
struct ReadShard {
  TarIndex index;
  std::exception_ptr failed;
};

std::vector<ReadShard> read_shards(const std::vector<std::filesystem::path>& paths,
                                   const TarIndexOptions& options) {
  std::vector<ReadShard> out(paths.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t at = next++; at < out.size(); at = next++) {
      try {
        out[at].index = ShardReader(paths[at], options).read(static_cast<uint32_t>(at));
      } catch (...) {
        out[at].failed = std::current_exception();
        next = out.size();  // those before it go on, so that the first failure is always the same
      }
    }
  };
  const size_t threads = options.threads > 0 ? static_cast<size_t>(options.threads)
                                             : std::thread::hardware_concurrency();
  std::vector<std::thread> others;
  try {
    for (size_t i = 1; i < std::min(threads, paths.size()); ++i) others.emplace_back(work);
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): those that are there do it
  }
  work();
  for (std::thread& other : others) other.join();
  for (const ReadShard& shard : out)
    if (shard.failed) std::rethrow_exception(shard.failed);
  return out;
}

/// Samples without a class, where others have one.
void move_unlabelled(TarIndex& index) {
  const auto is_said = [](const TarImage& image) { return !image.said.empty(); };
  if (std::ranges::none_of(index.images, is_said)) return;
  std::erase_if(index.images, [&](const TarImage& image) {
    if (!is_said(image))
      index.bad.push_back(
          {index.place_of(image), "its sample has no member that says its class, and others have"});
    return !is_said(image);
  });
}

}  // namespace

std::string TarIndex::place_of(const TarImage& image) const {
  return formats::place_of(shards[image.shard].path.string(),
                           {.name = image.name, .header = image.header});
}

std::string TarIndex::title() const {
  const std::string first = shards.front().path.string();
  return shards.size() == 1 ? first : concat(first, " … ", shards.back().path.string());
}

std::pair<std::string, std::string> sample_and_part(std::string_view name) {
  const size_t file = name.rfind('/') + 1;  // 0 without a folder
  const size_t dot = name.find('.', file);
  const std::string_view top = name.substr(0, name.find('/'));
  const bool is_meta = top.size() >= 4 && top.starts_with("__") && top.ends_with("__");
  if (dot == std::string_view::npos || dot == file || dot + 1 == name.size() || is_meta) return {};
  std::string part(name.substr(dot + 1));
  for (char& letter : part)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return {std::string(name.substr(0, dot)), std::move(part)};
}

TarIndex index_tar_shards(const std::vector<std::filesystem::path>& shards,
                          const TarIndexOptions& options) {
  static_cast<void>(LabelPart(options.label));  // before anything is read
  TarIndex all;
  for (ReadShard& shard : read_shards(shards, options)) {
    TarIndex& one = shard.index;
    std::ranges::move(one.shards, std::back_inserter(all.shards));
    std::ranges::move(one.images, std::back_inserter(all.images));
    std::ranges::move(one.bad, std::back_inserter(all.bad));
    all.left_aside += one.left_aside;
    one = {};
  }
  if (options.may_lack_labels) move_unlabelled(all);
  if (!all.images.empty() || !all.bad.empty()) return all;
  throw environment_error(
      {.refused = concat("tar shards ", all.shards.empty() ? "" : all.title()),
       .rule = "a sample has an image: a member that ends in jpg, jpeg or png",
       .value =
           concat("none in ", all.shards.size(), all.shards.size() == 1 ? " shard" : " shards")});
}

}  // namespace muster::formats
