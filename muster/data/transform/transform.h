// A change of samples between dataset and loader, step by step.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "muster/base/entry.h"
#include "muster/base/params.h"
#include "muster/data/dataset.h"
#include "muster/data/draws.h"
#include "muster/data/rng.h"

namespace muster::data {

/// The numbers of a batch's samples in one step: row i has those that sample i has alone.
class BatchRng {
 public:
  BatchRng(std::span<const int64_t> indices, const SampleContext& context)
      : indices_(indices), context_(context) {}

  Rng operator[](size_t row) const { return {context_, indices_[row]}; }
  Rng operator[](int64_t row) const { return (*this)[static_cast<size_t>(row)]; }

 private:
  std::span<const int64_t> indices_;
  SampleContext context_;
};

struct Cut;

/// One step of a chain, made for samples of one form. Const, any thread: what is random comes from
/// the Rng alone, see Note [Random numbers].
class Transform {
 public:
  virtual ~Transform() = default;

  /// What samples look like behind it.
  virtual const DataSpec& spec() const = 0;

  /// Chance leads samples through it by several ways, of steps that it is made of.
  virtual bool chooses() const { return false; }

  /// The step sees no more of an image than a part that its size and the numbers tell; null where it sees
  /// all. Where a chain begins with such a step, a dataset may read that part alone: cut_step.h.
  virtual const Cut* cut() const { return nullptr; }

  /// Changes one sample: puts other tensors in the place of its own. It may share memory with others,
  /// so it is not written to.
  virtual void apply(Sample& sample, Rng& rng) const = 0;

  /// The same with numbers from another source: Note [Two sources of numbers]. Throws a usage error
  /// where a step draws from an Rng alone, as those of each_sample do.
  virtual void apply(Sample& sample, Draws& draws) const;

  /// The same for a whole batch, bit for bit, where that is faster; false: there is no such way, and
  /// nothing was done. Its tensors are not written to either.
  virtual bool apply(Batch& /*batch*/, const BatchRng& /*rng*/) const { return false; }
};

/// Makes a step for samples as they are there. Throws a usage error for what it cannot take.
using TransformMaker = std::function<std::shared_ptr<const Transform>(const DataSpec& before)>;

/// A step inside another one, as its chain names it.
struct InnerStep {
  TransformMaker make;         ///< with the probability that it has itself
  TransformMaker make_surely;  ///< without it: what it does is done
  double weight = 0.5;         ///< the `p` that is written, 0.5 where none is
};

/// A transform by name. One file of transforms/ each; see Note [Generated tables].
struct TransformEntry {
  static constexpr std::string_view kKind = "transform";

  std::string_view name;
  std::string_view help;
  std::span<const Param> params;
  /// Throws a usage error for unknown parameters, or samples that it cannot take.
  std::shared_ptr<const Transform> (*make)(const ParamValues& params, const DataSpec& before);
  /// In its place for what is made of other steps, "one_of(grayscale|random_invert)": there is at least
  /// one. `make` is null then, and this is for all others.
  std::shared_ptr<const Transform> (*compose)(const ParamValues& params,
                                              const std::vector<InnerStep>& inside,
                                              const DataSpec& before) = nullptr;
};

/// All transforms of transforms/.
EntryTable<TransformEntry> transforms();

/// Throws a usage error, which names the transform, unless samples are images of float32, float64 or
/// uint8. For those that take no other.
void check_images(std::string_view transform, const DataSpec& spec);

/// The same unless all images are of one size, for transforms that need to know it before they see
/// one. Others take what comes, and those that make one size of all say it in their own spec.
void check_one_size(std::string_view transform, const DataSpec& spec);

}  // namespace muster::data
