#include "muster/data/stream/stream_dataset.h"

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/fingerprint.h"
#include "muster/data/stream/stream_sampler.h"
#include "muster/formats/crc32.h"

namespace muster::data {

/// A shard that is being read.
struct StreamDataset::Shard {
  std::mutex mutex;  // guards what follows, but for `used`
  std::unique_ptr<ShardReader> reader;
  int64_t next = 0;                 // offset that the reader is at
  std::map<int64_t, Sample> ahead;  // read, and not asked for yet
  int64_t used = 0;                 // when it was opened or asked last: of the dataset's mutex
};

StreamDataset::StreamDataset(const std::vector<int64_t>& shard_sizes,
                             const StreamOptions& options,
                             Collate collate)
    : starts_{0}, options_(options), collate_(std::move(collate)) {
  if (options.lanes < 1 || options.shuffle_window < 1) {
    throw usage_error({.refused = "a stream",
                       .rule = "its lanes and its shuffle window are at least 1",
                       .value = concat(options.lanes, " and ", options.shuffle_window)});
  }
  for (const int64_t size : shard_sizes) {
    if (size < 0) {
      throw usage_error({.refused = "a shard of a stream",
                         .rule = "it has 0 samples or more",
                         .value = std::to_string(size)});
    }
    int64_t end = 0;
    if (__builtin_add_overflow(starts_.back(), size, &end)) {
      throw usage_error({.refused = "shards of a stream",
                         .rule = "their samples are counted with 64 bits",
                         .value = concat(starts_.back(), " and ", size)});
    }
    starts_.push_back(end);
  }
  // No order changes by it, and no sum of them is too large.
  const auto shards = static_cast<int64_t>(shard_sizes.size());
  options_.lanes = std::min(options_.lanes, std::max<int64_t>(1, shards));
  options_.shuffle_window = std::min(options_.shuffle_window, std::max<int64_t>(1, starts_.back()));
}

std::shared_ptr<const Sampler> StreamDataset::own_sampler(const EpochShare& share) const {
  return std::make_shared<StreamSampler>(starts_, options_, share);
}

uint32_t StreamDataset::fingerprint() const {
  const auto* bytes = reinterpret_cast<const char*>(starts_.data());
  uint32_t sum = formats::crc32_of({bytes, starts_.size() * sizeof(int64_t)});
  std::vector<int64_t> firsts;
  for (size_t shard = 0; shard + 1 < starts_.size(); ++shard) {
    if (starts_[shard] < starts_[shard + 1]) firsts.push_back(starts_[shard]);
  }
  const size_t most = 64, count = std::min(firsts.size(), most);
  for (size_t i = 0; i < count; ++i) {
    const int64_t first = firsts[firsts.size() * i / count];
    const std::vector<Sample> one = samples({&first, 1});
    for (const auto& [name, tensor] : one[0].tensors) sum = fingerprint_of(tensor, sum);
  }
  return sum;
}

/// The shard's place among those that are open; one that was not asked for the longest is closed for
/// it where there are too many.
std::shared_ptr<StreamDataset::Shard> StreamDataset::opened(int64_t shard) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Shard>& found = open_[shard];
  if (!found) found = std::make_shared<Shard>();
  const std::shared_ptr<Shard> wanted = found;
  wanted->used = ++uses_;
  // A lane's next shard is opened while workers still read its last one.
  if (static_cast<int64_t>(open_.size()) > 2 * options_.lanes + 2) {
    open_.erase(std::min_element(open_.begin(), open_.end(), [](const auto& a, const auto& b) {
      return a.second->used < b.second->used;
    }));
  }
  return wanted;
}

Sample StreamDataset::read(int64_t shard, int64_t offset) const {
  const std::shared_ptr<Shard> source = opened(shard);
  const std::lock_guard lock(source->mutex);
  if (const auto kept = source->ahead.find(offset); kept != source->ahead.end()) {
    Sample sample = std::move(kept->second);
    source->ahead.erase(kept);
    return sample;
  }
  if (!source->reader || offset < source->next) {
    source->ahead.clear();
    source->reader = open(shard);
    source->next = 0;
  }
  const int64_t keeps = std::max<int64_t>(256, 2 * options_.shuffle_window);
  try {
    if (const int64_t far = offset - source->next - keeps; far > 0) {
      source->reader->skip(far);
      source->next += far;
    }
    for (; source->next < offset; ++source->next)
      source->ahead[source->next] = source->reader->next();
    while (static_cast<int64_t>(source->ahead.size()) > keeps)
      source->ahead.erase(source->ahead.begin());
    Sample sample = source->reader->next();
    ++source->next;
    return sample;
  } catch (...) {
    source->reader.reset();  // where it is now nobody knows
    throw;
  }
}

std::vector<Sample> StreamDataset::load_samples(std::span<const int64_t> indices,
                                                const SampleContext&) const {
  std::vector<Sample> samples;
  samples.reserve(indices.size());
  for (const int64_t index : indices) {
    const auto behind = std::upper_bound(starts_.begin(), starts_.end(), index);
    const int64_t shard = behind - starts_.begin() - 1;
    samples.push_back(read(shard, index - starts_[static_cast<size_t>(shard)]));
    samples.back().index = index;
  }
  return samples;
}

}  // namespace muster::data
