#include "muster/data/datasets/synthetic.h"

#include <cmath>
#include <random>
#include <vector>

#include <ATen/ops/empty.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/device/device_memory.h"

namespace muster::data {
namespace {

constexpr int64_t kPatches = 4;  // along each side

constexpr Param kSyntheticParams[] = {
    param<&SyntheticOptions::samples>("samples", "training samples"),
    param<&SyntheticOptions::test_samples>("test_samples", "test samples"),
    param<&SyntheticOptions::classes>("classes", "number of classes"),
    param<&SyntheticOptions::channels>("channels", "channels of an image"),
    param<&SyntheticOptions::size>("size", "height and width of an image"),
    param<&SyntheticOptions::noise>("noise", "share of a pixel that is random, 0 to 1"),
    param<&SyntheticOptions::seed>("seed", "another seed makes another task"),
};

void check(const Param& param, const SyntheticOptions& options, bool holds, std::string rule) {
  if (holds) return;
  throw usage_error({.refused = concat("dataset synthetic parameter \"", param.name, "\""),
                     .rule = std::move(rule),
                     .value = param.show(&options)});
}

void check(const SyntheticOptions& options) {
  const int64_t counts[] = {
      options.samples, options.test_samples, options.classes, options.channels, options.size};
  for (size_t i = 0; i < std::size(counts); ++i) {
    check(kSyntheticParams[i], options, counts[i] >= 1, "it is at least 1");
  }
  constexpr int64_t kMost = int64_t{1} << 31;
  for (size_t i = 0; i < 2; ++i)
    check(kSyntheticParams[i], options, counts[i] <= kMost, concat("it is at most ", kMost));
  check(kSyntheticParams[2], options, options.classes <= 256, "it is at most 256");
  check(kSyntheticParams[3], options, options.channels <= 1024, "it is at most 1024");
  check(kSyntheticParams[4], options, options.size <= 4096, "it is at most 4096");
  check(kSyntheticParams[5], options, options.noise >= 0 && options.noise <= 1, "it is in 0 … 1");
}

/// The split is made whole, in memory: what has no room there is refused before it is begun.
void check_room(const SyntheticOptions& options, Split split) {
  uint64_t room = 0;
  try {
    room = tensor::free_bytes_of(c10::kCPU);
  } catch (const Error&) {  // nobody tells
    return;
  }
  const auto of_sample = static_cast<uint64_t>(options.channels * options.size * options.size) +
                         sizeof(int64_t);  // the label
  const bool is_train = split == Split::kTrain;
  const auto samples = static_cast<uint64_t>(is_train ? options.samples : options.test_samples);
  const uint64_t most = room / of_sample;
  if (samples <= most) return;
  uint64_t need = 0;
  const bool is_beyond = __builtin_mul_overflow(samples, of_sample, &need);
  const Param& param = kSyntheticParams[is_train ? 0 : 1];
  throw usage_error({.refused = concat("dataset synthetic parameter \"", param.name, "\""),
                     .rule = concat("its samples of ",
                                    of_sample,
                                    " bytes lie in memory, of which ",
                                    human_bytes(room),
                                    " is free, and so many need ",
                                    is_beyond ? "more than 16384 PiB" : human_bytes(need)),
                     .value = param.show(&options),
                     .hint = most > 0 ? concat("take ", most, " at most, or smaller images")
                                      : "take smaller images"});
}

/// Bytes of a random stream. The engine's output is fixed by the standard; its distributions are
/// not, so none is used.
class ByteStream {
 public:
  ByteStream(int64_t seed, uint64_t stream) : engine_(static_cast<uint64_t>(seed) * 4 + stream) {}

  int next() {
    if (left_ == 0) {
      bits_ = engine_();
      left_ = 8;
    }
    --left_;
    const int byte = static_cast<int>(bits_ & 0xff);
    bits_ >>= 8;
    return byte;
  }

 private:
  std::mt19937_64 engine_;
  uint64_t bits_ = 0;
  int left_ = 0;
};

/// // [classes][channels][kPatches][kPatches]
std::vector<int> make_patterns(const SyntheticOptions& options) {
  ByteStream bytes(options.seed, 0);
  std::vector<int> patterns(
      static_cast<size_t>(options.classes * options.channels * kPatches * kPatches));
  for (int& value : patterns) value = bytes.next();
  return patterns;
}

void draw_plane(const int* pattern, int64_t size, int noise_256, ByteStream& bytes, uint8_t* to) {
  for (int64_t y = 0; y < size; ++y) {
    const int* patches = pattern + y * kPatches / size * kPatches;
    for (int64_t x = 0; x < size; ++x) {
      const int shade = patches[x * kPatches / size];
      *to++ = static_cast<uint8_t>((shade * (256 - noise_256) + bytes.next() * noise_256) / 256);
    }
  }
}

std::shared_ptr<const Dataset> open_synthetic(const DatasetRequest& request) {
  if (!request.data_dir.empty()) {
    throw usage_error({.refused = "--data-dir",
                       .rule = "dataset synthetic has no files",
                       .value = request.data_dir.string()});
  }
  return make_synthetic(
      resolve_params<SyntheticOptions>(kSyntheticParams, request.params, "dataset synthetic"),
      request.split);
}

}  // namespace

std::shared_ptr<const ImageDataset> make_synthetic(const SyntheticOptions& options, Split split) {
  check(options);
  check_room(options, split);
  const std::vector<int> patterns = make_patterns(options);
  const int64_t samples = split == Split::kTrain ? options.samples : options.test_samples;
  at::Tensor images = at::empty({samples, options.channels, options.size, options.size}, at::kByte);
  at::Tensor labels = at::empty({samples}, at::kLong);
  ByteStream bytes(options.seed, split == Split::kTrain ? 1 : 2);
  const int noise_256 = static_cast<int>(std::lround(options.noise * 256));
  auto* pixels = images.mutable_data_ptr<uint8_t>();
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t label = i % options.classes;
    labels.mutable_data_ptr<int64_t>()[i] = label;
    for (int64_t channel = 0; channel < options.channels; ++channel) {
      const auto pattern =
          static_cast<size_t>((label * options.channels + channel) * kPatches * kPatches);
      draw_plane(&patterns[pattern], options.size, noise_256, bytes, pixels);
      pixels += options.size * options.size;
    }
  }
  const auto channels = static_cast<size_t>(options.channels);
  DataSpec spec{.name = "synthetic",
                .sample_shape = {options.channels, options.size, options.size},
                .classes = options.classes,
                .mean = std::vector<double>(channels, 0.5),
                .standard_deviation = std::vector<double>(channels, 0.25)};
  return std::make_shared<ImageDataset>(std::move(spec), std::move(images), std::move(labels));
}

extern constinit const DatasetEntry synthetic_entry{
    .name = "synthetic",
    .help = "made-up images that a small model learns in seconds; no files",
    .params = kSyntheticParams,
    .open = &open_synthetic,
};

}  // namespace muster::data
