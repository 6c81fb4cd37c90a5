// Steps made of steps: left out by chance, one of several, some of them, in another order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/data/transform/transform.h"

namespace muster::data {

// Note [Steps made of steps]
// A step made of others draws first which of them a sample goes through, and then these draw, all from
// the one stream of numbers that the sample has at this place of the chain: so what was chosen is a
// function of seed, epoch, sample and place as well (Note [Random numbers]). A later run chooses the
// same with nothing kept, which is what albumentations' ReplayCompose stores a record for.
// What the others are made for is known before a sample is read, what they leave may hang on chance:
// dtype, channels, mean and deviation have to come out alike, and sizes that do not are unknown (0).

/// All of them with probability `p`, for which one number is drawn, also where it is 1: torchvision's
/// RandomApply.
TransformMaker random_apply(std::vector<TransformMaker> steps, double p = 0.5);

/// The same of one step, which errors call `name`: "pad:padding=2,p=0.3".
TransformMaker done_with_probability(double p, std::string name, TransformMaker step);

/// random_apply, but with `p` of 1 nothing is drawn: albumentations' Sequential, and torchvision's Compose.
TransformMaker sequential(std::vector<TransformMaker> steps, double p = 0.5);

/// One of them, each as likely as its share of the weights; none: all alike. torchvision's
/// RandomChoice.
TransformMaker random_choice(std::vector<TransformMaker> steps, std::vector<double> weights = {});

/// All of them, in an order that is drawn: torchvision's RandomOrder.
TransformMaker random_order(std::vector<TransformMaker> steps);

struct OneOfOptions {
  double p = 0.5;
  std::vector<double> weights;  ///< one per step; none: all alike
};
/// random_choice with probability `p`: albumentations' OneOf. In a chain its steps are sure to do what
/// they do, their own `p` is their weight; here give steps that are sure.
TransformMaker one_of(std::vector<TransformMaker> steps, const OneOfOptions& options = {});

struct SomeOfOptions {
  int64_t n = 1;
  bool replace = false;  ///< the same step may be taken again
  double p = 1;
};
/// With probability `p`, `n` of them, all choices alike likely, in the order in which they stand:
/// albumentations' SomeOf.
TransformMaker some_of(std::vector<TransformMaker> steps, const SomeOfOptions& options = {});

// All throw a usage error for a number out of range or no step, and what they make for steps that leave
// samples of unlike form.

/// The steps' makers, with their own probability or surely done.
std::vector<TransformMaker> makers_of(const std::vector<InnerStep>& inside);
std::vector<TransformMaker> sure_makers_of(const std::vector<InnerStep>& inside);

}  // namespace muster::data
