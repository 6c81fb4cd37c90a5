// Pixels to floats around 0: torchvision's ToDtype(float32, scale=True), then Normalize.
#include <algorithm>
#include <optional>
#include <utility>

#include <ATen/ops/tensor.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/batch_memory.h"
#include "muster/data/pixel_table.h"
#include "muster/data/transform/transform.h"

namespace muster::data {
namespace {

struct NormalizeOptions {
  std::string mean = "data";  // or a number for all channels, or one for each
  std::string std = "data";
};

constexpr Param kNormalizeParams[] = {
    param<&NormalizeOptions::mean>("mean", "a number, or one per channel; data: the dataset's own"),
    param<&NormalizeOptions::std>("std", "divided by after that; data: the dataset's own"),
};

class Normalize final : public Transform {
 public:
  Normalize(const DataSpec& before, std::vector<double> mean, std::vector<double> deviation)
      : spec_(before) {
    if (before.dtype == at::kByte) {
      table_.emplace(before.channels(), mean, deviation);
      spec_.dtype = at::kFloat;
    } else {
      const auto of_channels = [&](const std::vector<double>& values) {
        return at::tensor(values, before.dtype).view({before.channels(), 1, 1});
      };
      mean_ = of_channels(mean);
      deviation_ = of_channels(deviation);
    }
    spec_.mean = std::move(mean);
    spec_.standard_deviation = std::move(deviation);
  }

  const DataSpec& spec() const override { return spec_; }
  void apply(Sample& sample, Rng&) const override { change(sample["data"]); }
  void apply(Sample& sample, Draws&) const override { change(sample["data"]); }
  bool apply(Batch& batch, const BatchRng&) const override {
    at::Tensor& images = batch["data"];
    images = table_ ? table_->floats_of_batch(images, makes_pinned_batch()) : normalized(images);
    return true;
  }

 private:
  void change(at::Tensor& image) const { image = normalized(image.unsqueeze(0)).squeeze(0); }
  at::Tensor normalized(const at::Tensor& images) const {
    return table_ ? table_->floats(images) : images.sub(mean_).div_(deviation_);
  }

  DataSpec spec_;
  std::optional<PixelTable> table_;  // of bytes
  at::Tensor mean_, deviation_;      // else // [C, 1, 1]
};

[[noreturn]] void refuse_normalize(std::string what, std::string rule, std::string value) {
  throw usage_error(
      {.refused = std::move(what), .rule = std::move(rule), .value = std::move(value)});
}

/// What was asked for, for each channel.
std::vector<double> of_each_channel(const std::string& asked,
                                    const char* name,
                                    const std::vector<double>& own,
                                    const DataSpec& before) {
  if (asked == "data") return own;
  const bool is_deviation = std::string_view(name) == "std";
  const auto refuse = [&] {
    refuse_normalize(concat("transform normalize parameter \"", name, '"'),
                     is_deviation ? "data, a number above 0, or one per channel"
                                  : "data, a number, or one per channel",
                     '"' + asked + '"');
  };
  const auto channels = static_cast<size_t>(before.channels());
  std::vector<double> values;
  try {
    values = detail::ParamType<std::vector<double>>::parse(asked);
  } catch (const Error&) {
    refuse();
  }
  if (values.size() == 1) values.assign(channels, values[0]);
  const bool positive = std::ranges::all_of(values, [](double v) { return v > 0; });
  if (values.size() != channels || (is_deviation && !positive)) refuse();
  return values;
}

std::shared_ptr<const Transform> make_normalize(const ParamValues& params, const DataSpec& before) {
  const auto options =
      resolve_params<NormalizeOptions>(kNormalizeParams, params, "transform normalize");
  check_images("normalize", before);
  const bool own = options.mean == "data";
  if (own != (options.std == "data"))
    refuse_normalize("transform normalize", "mean and std are both given, or neither", "one");
  if (own && before.dtype != at::kByte)
    refuse_normalize(
        concat("normalize of ", before.name),
        "of floats, mean and std are said: normalised they may be already, or scaled alone",
        "mean=data,std=data");
  return std::make_shared<Normalize>(
      before,
      of_each_channel(options.mean, "mean", before.mean, before),
      of_each_channel(options.std, "std", before.standard_deviation, before));
}

}  // namespace

extern constinit const TransformEntry normalize_entry{
    .name = "normalize",
    .help = "bytes to 0 … 1, then mean off and divided by the deviation; else it is the last step",
    .params = kNormalizeParams,
    .make = &make_normalize,
};

}  // namespace muster::data
