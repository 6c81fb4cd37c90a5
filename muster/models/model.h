// Models by name. One pair of files of zoo/ adds one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>

#include "muster/base/entry.h"
#include "muster/base/params.h"
#include "muster/tensor/unit_call.h"

namespace muster::models {

/// What a model sees and must answer: images, or rows of numbers, which are images of one channel and
/// one row, or token ids.
struct ImageShape {
  int64_t channels = 1;
  int64_t height = 28;
  int64_t width = 28;  ///< of token ids: the longest sequence
  int64_t classes = 10;
  int64_t vocabulary = 0;  ///< above 0: the input is token ids below it // [N, T ≤ width] int64
  int64_t padding = -1;    ///< the id that fills sequences up at their ends; -1: none does
};

// Note [Parts of models]
// Most of a deep model is a row of parts, each of which takes and gives one tensor: what comes
// before its blocks, the blocks (the encoder layers of a Transformer, the residual blocks of a
// ResNet, the stages of a VGG), and the head. Between any two the model may be cut.

/// One part. Calling all parts one after another is the model's forward.
struct ModelPart {
  std::string name;
  /// Whose parameters and buffers it uses.
  std::vector<std::shared_ptr<torch::nn::Module>> modules;
  /// The model's own parameters that it uses beside those, by name.
  std::vector<std::pair<std::string, at::Tensor>> parameters = {};
  std::function<at::Tensor(const at::Tensor&)> forward;
};

/// A module from images to class scores. Models of the zoo derive from it, so that `muster train`
/// can hold any of them.
class Classifier : public torch::nn::Module, public tensor::HasUnits {
 public:
  /// images // [N, C, H, W] float32  ->  scores before softmax // [N, classes] float32
  /// A model of parts calls them, each as a unit: see tensor::call_unit().
  virtual at::Tensor forward(at::Tensor images);

  /// Every dropout of the model draws from this generator from now on; nothing happens for a model
  /// without one. Ranks that are threads need a generator each. See Note [Dropout and generators]
  /// in dropout.h.
  void set_generator(const at::Generator& generator);

  /// See Note [Parts of models]. They live as long as the model does. Empty: it is not cut, and has
  /// a forward of its own.
  virtual std::vector<ModelPart> parts() { return {}; }
  /// The parts.
  std::vector<tensor::ChainedUnit> chain() override;

 private:
  /// From the first forward on, which may be several threads'. A copy of the model has none yet.
  struct CalledParts {
    CalledParts() = default;
    CalledParts(const CalledParts& /*other*/) {}
    CalledParts& operator=(const CalledParts& /*other*/) = delete;
    std::once_flag once;
    std::vector<ModelPart> parts;
  };
  CalledParts called_;
};

/// One model. `make` draws the initial weights from torch's default CPU generator, layer by layer
/// in the order of torchvision's (or the paper's) definition: the same seed gives the weights that
/// Python would draw.
struct ModelEntry {
  static constexpr std::string_view kKind = "model";
  std::string_view name;
  std::string_view help;
  int64_t min_size;  ///< least height and width in pixels
  int64_t channels;  ///< that it needs; 0: takes any number
  std::span<const Param> params;
  /// Throws a usage error for an unknown parameter or a shape below min_size.
  std::shared_ptr<Classifier> (*make)(const ImageShape& shape, const ParamValues& params);
  bool takes_tokens = false;   ///< token ids, besides images
  bool takes_numbers = false;  ///< rows of numbers // [N, width], besides images
};

/// All models (generated; see Note [Generated tables]).
EntryTable<ModelEntry> models();

/// The names of those that take token ids, and of those that take rows of numbers.
std::vector<std::string> models_for_tokens();
std::vector<std::string> models_for_numbers();

/// The model of that name for that shape. Throws a usage error for an unknown name, an unknown
/// parameter, or a shape that the model cannot take (the impossible pair of model and data).
std::shared_ptr<Classifier> make_model(std::string_view name,
                                       const ImageShape& shape,
                                       const ParamValues& params = {});

/// The shape nearest to the data's that the model takes: what a plan asks data::fit_images for.
/// Channels stay, or one grey channel is repeated to as many as the model needs. Height and width
/// stay unless one is below the model's minimum; then the shorter becomes the minimum and the
/// longer keeps the proportion (rounded down, as torchvision's Resize does). Pure. Throws a usage
/// error if channels cannot be fitted or the data has no pixels.
ImageShape fitted_shape(const ModelEntry& entry, const ImageShape& data);

}  // namespace muster::models
