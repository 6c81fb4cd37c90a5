#include "muster/data/transform/mixed.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/rng.h"

namespace muster::data {
namespace {

class MixedDataset final : public Dataset {
 public:
  MixedDataset(std::shared_ptr<const Dataset> source, const MixOptions& options)
      : source_(std::move(source)), options_(options) {}

  int64_t size() const override { return source_->size(); }
  DataSpec spec() const override { return source_->spec(); }
  uint32_t fingerprint() const override { return source_->fingerprint(); }
  at::Tensor targets() const override { return source_->targets(); }
  bool is_by_sample() const override { return source_->is_by_sample(); }
  std::shared_ptr<const Sampler> own_sampler(const EpochShare& share) const override {
    return source_->own_sampler(share);
  }
  Batch collate(const std::vector<Sample>& samples) const override {
    return source_->collate(samples);
  }

 private:
  Batch load(std::span<const int64_t> indices, const SampleContext& context) const override {
    SampleContext behind = context;
    ++behind.position;
    Batch batch = source_->get(indices, behind);
    batch["target"] = functional::soft_targets(batch["target"], options_.classes);
    if (indices.empty()) return batch;
    Rng rng(context, indices[0]);
    RngDraws draws(rng);
    if (!draws.is_below(options_.p)) return batch;
    functional::MixedBatch mixed = mix(batch["data"], batch["target"], draws);
    batch["data"] = std::move(mixed.images);
    batch["target"] = std::move(mixed.targets);
    return batch;
  }

  functional::MixedBatch mix(const at::Tensor& images,
                             const at::Tensor& targets,
                             Draws& draws) const {
    const bool both = options_.mix_up_alpha > 0 && options_.cut_mix_alpha > 0;
    const bool cuts = both ? draws.is_below(0.5) : options_.cut_mix_alpha > 0;
    if (!cuts)
      return functional::mix_up(images, targets, draw_mix_up(options_.mix_up_alpha, draws));
    const auto box = draw_cut_mix(options_.cut_mix_alpha, images.size(-2), images.size(-1), draws);
    return functional::cut_mix(images, targets, box);
  }

  std::shared_ptr<const Dataset> source_;
  MixOptions options_;
};

}  // namespace

double draw_mix_up(double alpha, Draws& draws) { return draws.beta(alpha); }

functional::CutBox draw_cut_mix(double alpha, int64_t height, int64_t width, Draws& draws) {
  const double share = draws.beta(alpha);
  const int64_t x = draws.integer(0, width), y = draws.integer(0, height);
  const double half = 0.5 * std::sqrt(1.0 - share);
  const auto half_width = static_cast<int64_t>(half * static_cast<double>(width));
  const auto half_height = static_cast<int64_t>(half * static_cast<double>(height));
  return {std::max<int64_t>(x - half_width, 0),
          std::max<int64_t>(y - half_height, 0),
          std::min(x + half_width, width),
          std::min(y + half_height, height)};
}

std::shared_ptr<const Dataset> mixed(std::shared_ptr<const Dataset> dataset,
                                     const MixOptions& options) {
  const DataSpec spec = dataset->spec();
  const auto refuse_options = [](std::string rule, std::string value) {
    throw usage_error({.refused = "mix of a dataset's batches",
                       .rule = std::move(rule),
                       .value = std::move(value)});
  };
  MixOptions known = options;
  if (known.classes == 0) known.classes = spec.classes;
  const double least = std::min(known.mix_up_alpha, known.cut_mix_alpha);
  if (!(least >= 0) || known.mix_up_alpha + known.cut_mix_alpha <= 0)
    refuse_options("an alpha is above 0, and none is below it", shortest(least));
  if (!(known.p >= 0 && known.p <= 1)) refuse_options("p is in 0 … 1", shortest(known.p));
  if (known.classes < 1) refuse_options("the samples have classes", concat(known.classes));
  if (spec.dtype == at::kByte) refuse_options("images are floats", "uint8");
  return std::make_shared<MixedDataset>(std::move(dataset), known);
}

}  // namespace muster::data
