#include "muster/data/transform/transformed.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/zeros.h>

#include "muster/base/text.h"
#include "muster/data/image_parts.h"
#include "muster/data/in_hand.h"
#include "muster/data/transform/cut_step.h"

namespace muster::data {
namespace {

using Steps = std::vector<std::shared_ptr<const Transform>>;

class Transformed final : public Dataset {
 public:
  /// `normalises`: the last step is none that was asked for.
  Transformed(std::shared_ptr<const Dataset> source, Steps steps, bool normalises)
      : source_(std::move(source)),
        steps_(std::move(steps)),
        normalises_(normalises),
        parts_(steps_[0]->cut() != nullptr ? source_->image_parts() : nullptr) {}

  int64_t size() const override { return source_->size(); }
  DataSpec spec() const override { return steps_.back()->spec(); }
  uint32_t fingerprint() const override { return source_->fingerprint(); }
  at::Tensor targets() const override { return source_->targets(); }
  std::shared_ptr<const Sampler> own_sampler(const EpochShare& share) const override {
    return source_->own_sampler(share);
  }
  bool is_by_sample() const override { return source_->is_by_sample(); }
  Batch collate(const std::vector<Sample>& samples) const override {
    return source_->collate(samples);
  }
  std::shared_ptr<const Dataset> before_normalising() const override {
    if (!normalises_) return nullptr;
    if (steps_.size() == 1) return source_;
    return std::make_shared<Transformed>(source_, Steps(steps_.begin(), steps_.end() - 1), false);
  }

 private:
  Batch load(std::span<const int64_t> indices, const SampleContext& context) const override {
    if (is_by_sample()) return collated(indices, context);
    Batch batch = source_->get(indices, behind(context));
    size_t done = 0;
    while (done < steps_.size() && steps_[done]->apply(batch, {indices, at_step(context, done)}))
      ++done;
    if (done == steps_.size() || indices.empty()) return batch;
    std::vector<Sample> rows = rows_of(batch);
    change(rows, done, steps_.size(), context);
    return source_->collate(rows);
  }

  std::vector<Sample> load_samples(std::span<const int64_t> indices,
                                   const SampleContext& context) const override {
    return changed(indices, context, steps_.size());
  }

  /// Images that are of one size by then are normalised as a batch: bytes are stacked, not floats.
  Batch collated(std::span<const int64_t> indices, const SampleContext& context) const {
    const size_t last = steps_.size() - 1;
    const bool at_once = normalises_ && last > 0 && steps_[last - 1]->spec().has_size();
    if (!at_once || indices.empty()) return source_->collate(load_samples(indices, context));
    Batch batch = source_->collate(changed(indices, context, last));
    steps_[last]->apply(batch, {indices, at_step(context, last)});
    return batch;
  }

  /// By the first `count` steps, of which there is one at least.
  std::vector<Sample> changed(std::span<const int64_t> indices,
                              const SampleContext& context,
                              size_t count) const {
    std::vector<Sample> samples = parts_ != nullptr ? from_parts(indices, context)
                                                    : source_->samples(indices, behind(context));
    change(samples, parts_ != nullptr ? 1 : 0, count, context);
    return samples;
  }

  /// The first step, a cut, is told to the source.
  std::vector<Sample> from_parts(std::span<const int64_t> indices,
                                 const SampleContext& context) const {
    const Cut& cut = *steps_[0]->cut();
    std::vector<Sample> samples;
    for (const int64_t index : indices) {
      Rng rng(at_step(context, 0), index);
      RngDraws draws(rng);
      samples.push_back(parts_->read_part(index, [&](int64_t height, int64_t width) {
        const Box box = cut.draw({height, width}, draws);
        return formats::ImageRegion{box.top, box.left, box.height, box.width};
      }));
      at::Tensor& image = samples.back()["data"];
      image = cut.epilogue(image);
    }
    return samples;
  }

  /// By the steps `from` … `to` - 1.
  void change(std::vector<Sample>& samples,
              size_t from,
              size_t to,
              const SampleContext& context) const {
    for (size_t step = from; step < to; ++step) {
      for (Sample& sample : samples) {
        Rng rng(at_step(context, step), sample.index);
        note_in_hand([&] {
          return concat("sample ", sample.index, ", step ", step + 1, " of its transforms");
        });
        steps_[step]->apply(sample, rng);
      }
    }
  }

  static SampleContext at_step(SampleContext context, size_t step) {
    context.position += static_cast<int64_t>(step);
    return context;
  }
  SampleContext behind(const SampleContext& context) const {
    return at_step(context, steps_.size());
  }

  std::shared_ptr<const Dataset> source_;
  Steps steps_;
  bool normalises_;
  const ImageParts* parts_;  // of the source, or null
};

class EachSample final : public Transform {
 public:
  EachSample(DataSpec spec, std::function<void(Sample&, Rng&)> change)
      : spec_(std::move(spec)), change_(std::move(change)) {}

  const DataSpec& spec() const override { return spec_; }
  void apply(Sample& sample, Rng& rng) const override { change_(sample, rng); }

 private:
  DataSpec spec_;
  std::function<void(Sample&, Rng&)> change_;
};

Steps made(const std::vector<TransformMaker>& makers, const DataSpec& before) {
  Steps steps;
  for (const TransformMaker& maker : makers)
    steps.push_back(maker(steps.empty() ? before : steps.back()->spec()));
  return steps;
}

/// What the first step sees.
DataSpec spec_for_steps(const Dataset& dataset) {
  const auto pixels = dataset.before_normalising();
  return pixels ? pixels->spec() : dataset.spec();
}

}  // namespace

TransformMaker each_sample(std::function<void(Sample&, Rng&)> change) {
  return [change = std::move(change)](const DataSpec& before) {
    return std::make_shared<EachSample>(before, change);
  };
}

std::shared_ptr<const Dataset> transformed(std::shared_ptr<const Dataset> dataset,
                                           const std::vector<TransformMaker>& steps) {
  if (steps.empty()) return dataset;
  const auto pixels = dataset->before_normalising();
  const auto source = pixels ? pixels : dataset;
  Steps chain = made(steps, source->spec());
  const bool normalises = pixels && chain.back()->spec().dtype == at::kByte;
  if (normalises) chain.push_back(transforms().at("normalize").make({}, chain.back()->spec()));
  return std::make_shared<Transformed>(source, std::move(chain), normalises);
}

std::shared_ptr<const Dataset> transformed(std::shared_ptr<const Dataset> dataset,
                                           std::string_view chain) {
  return transformed(std::move(dataset), parse_transforms(chain));
}

void try_on_blank(const Dataset& dataset, const std::vector<TransformMaker>& makers) {
  const DataSpec before = spec_for_steps(dataset);
  if (!before.is_image() || !before.has_size()) return;
  const Steps steps = made(makers, before);
  const bool chooses = std::ranges::any_of(steps, [](const auto& step) { return step->chooses(); });
  const int64_t tries = chooses ? 16 : 1;
  for (int64_t index = 0; index < tries; ++index) {
    Sample blank{.tensors = {{"data", at::zeros(before.sample_shape, before.dtype)},
                             {"target", at::zeros({}, at::kLong)}},
                 .index = index};
    for (size_t step = 0; step < steps.size(); ++step) {
      Rng rng(SampleContext{.position = static_cast<int64_t>(step)}, index);
      steps[step]->apply(blank, rng);
    }
  }
}

DataSpec transformed_spec(const Dataset& dataset, const std::vector<TransformMaker>& steps) {
  const DataSpec before = spec_for_steps(dataset);
  const Steps chain = made(steps, before);
  return chain.empty() ? before : chain.back()->spec();
}

}  // namespace muster::data
