// A dataset behind a chain of transforms.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "muster/data/transform/transform.h"

namespace muster::data {

/// "random_crop:padding=2|random_horizontal_flip": steps by their names, one after the other; empty
/// for none. Throws a usage error for an unknown name, or what is no chain. Parameters are read when
/// a step is made.
std::vector<TransformMaker> parse_transforms(std::string_view chain);

/// A step of your own: `change` gets each sample and its own numbers. What samples look like is not
/// changed by it.
///
///     transformed(train, {each_sample([](Sample& sample, Rng& rng) {
///       sample["data"] = sample["data"] + 0.1 * rng.normal();
///     })})
TransformMaker each_sample(std::function<void(Sample& sample, Rng& rng)> change);

/// The same samples, each changed by the steps in their order when a batch is made. Split first and
/// transform then, and each part has a chain of its own. Steps see the samples as
/// Dataset::before_normalising() has them, 8-bit images as bytes, which are normalised behind the last
/// step unless one has made floats of them (`normalize`). The dataset itself for no steps.
///
/// A sample's numbers hang on (seed, epoch, its index in `dataset`, the step's position) alone: see
/// Note [Random numbers]. Throws as the makers.
std::shared_ptr<const Dataset> transformed(std::shared_ptr<const Dataset> dataset,
                                           const std::vector<TransformMaker>& steps);
std::shared_ptr<const Dataset> transformed(std::shared_ptr<const Dataset> dataset,
                                           std::string_view chain);

/// Applies the steps to a made-up image, a black one with class 0, so that what no sample passes is
/// refused before any is read. Does nothing for samples that are no images, or of no one size.
void try_on_blank(const Dataset& dataset, const std::vector<TransformMaker>& steps);

/// What the samples would look like, before they are normalised at the end. Throws as the makers.
DataSpec transformed_spec(const Dataset& dataset, const std::vector<TransformMaker>& steps);

}  // namespace muster::data
