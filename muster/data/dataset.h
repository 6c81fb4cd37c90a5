// A dataset: numbered samples that are read a batch at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "muster/base/entry.h"
#include "muster/base/params.h"
#include "muster/tensor/named_tensors.h"

namespace muster::data {

/// Some samples side by side, ready for a model: tensors by name, in an order that the dataset
/// keeps. Row i of a tensor is sample i, but where the dataset says otherwise (ragged lists). Owned
/// by whoever holds it; nothing else writes to the tensors.
///
/// Datasets of this library have "data" // [B, sample_shape…] of the dataset's dtype, and "target"
/// // [B] int64 for classes.
struct Batch {
  tensor::NamedTensorList tensors;
  std::vector<int64_t> indices;  ///< the samples' numbers in the dataset, in the order of the rows

  int64_t size() const { return static_cast<int64_t>(indices.size()); }

  /// batch["target"]. Throws a usage error that names what there is.
  at::Tensor& operator[](std::string_view name) &;
  const at::Tensor& operator[](std::string_view name) const&;
  at::Tensor operator[](std::string_view name) && { return (*this)[name]; }
  /// The tensor of that name, or null.
  const at::Tensor* find(std::string_view name) const;
};

/// One sample, as a transform changes it and a collate takes it: tensors by name, as in a batch
/// without its first dimension.
struct Sample {
  tensor::NamedTensorList tensors;
  int64_t index = 0;  ///< its number in the dataset

  /// sample["data"]. Throws a usage error that names what there is.
  at::Tensor& operator[](std::string_view name);
  const at::Tensor& operator[](std::string_view name) const;
  /// The tensor of that name, or null.
  const at::Tensor* find(std::string_view name) const;
};

/// What a sample's "data" is.
enum class DataKind {
  kImage,   ///< [channels, height, width]
  kTokens,  ///< [length] int64: numbers of a vocabulary
  kTensor   ///< numbers
};

/// "image", "tokens" or "tensor".
std::string_view to_string(DataKind kind);

/// What every sample of a dataset looks like. `muster train` matches it against the model.
struct DataSpec {
  std::string name;  ///< "fashion-mnist"
  std::vector<int64_t>
      sample_shape;     ///< {1, 28, 28}: channels, height, width for images; see has_size()
  int64_t classes = 0;  ///< targets are 0 … classes-1; 0 where the target is no class
  std::vector<std::string> class_names;  ///< one per class, or empty: they are called by number
  at::ScalarType dtype = at::kFloat;     ///< of a batch's "data"
  std::vector<double> mean;  ///< per channel, taken off after scaling to 0 … 1; empty: nothing is
  std::vector<double> standard_deviation;  ///< per channel, divided by after that
  /// Not said: an image where a sample has three dimensions, else numbers.
  std::optional<DataKind> kind;
  int64_t vocabulary = 0;  ///< tokens are 0 … vocabulary-1; 0 where they are none, or nobody knows
  /// The token that fills a batch's shorter samples up at their ends, and stands at no other sample's
  /// end. -1: none does, all samples are of one length.
  int64_t padding = -1;

  DataKind what() const {
    return kind.value_or(sample_shape.size() == 3 ? DataKind::kImage : DataKind::kTensor);
  }
  bool is_image() const { return what() == DataKind::kImage && sample_shape.size() == 3; }
  /// False for images of unlike sizes: their height and width are 0 here, until a transform makes
  /// them alike.
  bool has_size() const { return !is_image() || (height() > 0 && width() > 0); }
  bool is_tokens() const { return what() == DataKind::kTokens; }
  int64_t channels() const { return is_image() ? sample_shape[0] : 1; }
  int64_t height() const { return is_image() ? sample_shape[1] : 1; }
  int64_t width() const { return sample_shape.empty() ? 1 : sample_shape.back(); }
};

/// All that a random change of a sample may depend on, besides the sample's index: never the
/// worker, the rank, or how often the sample was read before. And where the batch's memory is.
struct SampleContext {
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t position = 0;  ///< random steps that come behind this dataset; see Note [Random numbers]
  /// The batch is going to a device. A dataset that makes its tensors with options() saves a copy;
  /// others' are copied by the loader.
  bool pinned = false;

  at::TensorOptions options(at::ScalarType dtype) const {
    return at::TensorOptions(dtype).pinned_memory(pinned);
  }
};

class ImageParts;
class Sampler;

/// Whose share of an epoch is wanted.
struct EpochShare {
  int64_t world_size = 1;
  int64_t rank = 0;
  uint64_t seed = 0;  ///< the same on all ranks
  bool shuffle = true;
};

/// Numbered samples. Every member is const and may be called from any number of threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// Number of samples.
  virtual int64_t size() const = 0;

  virtual DataSpec spec() const = 0;

  /// The samples of these indices, in this order; an index may come more than once.
  /// Throws a usage error if an index is outside 0 … size()-1, or load() gives other samples, or a
  /// tensor with another number of rows where batches are made at once.
  Batch get(std::span<const int64_t> indices, const SampleContext& context = {}) const;

  /// The same samples one by one, before collate() makes a batch of them: what changes samples so
  /// that they differ in size works on these. Throws as get().
  std::vector<Sample> samples(std::span<const int64_t> indices,
                              const SampleContext& context = {}) const;

  /// Makes a batch of samples() that may have been changed since. Here their tensors are stacked;
  /// see Collate for padding and ragged lists.
  virtual Batch collate(const std::vector<Sample>& samples) const;

  /// Whether samples are made one by one: they may differ in size, and only collate() evens them
  /// out. False: a batch is made at once, and samples() are its rows.
  virtual bool is_by_sample() const { return false; }

  /// The classes of all samples // [N] int64 on the CPU, or undefined where that would take reading
  /// them all: what stratified splits go by.
  virtual at::Tensor targets() const { return {}; }

  /// For people: what was left out when the samples were found, a sentence each.
  virtual std::vector<std::string> remarks() const { return {}; }

  /// What was learned from the training split, and other samples are read by: a vocabulary, the names
  /// of classes, means and deviations. Checkpoints keep it; see DatasetRequest::learned. Empty:
  /// nothing. A subset's is the whole's.
  virtual std::string learned() const { return {}; }

  /// The same samples before mean and deviation of spec() are taken off, as 8-bit pixels, or null
  /// where there is no such thing. Transforms come before normalising, as torchvision's do: so black
  /// is 0 for them, and a resized pixel is rounded as a pixel.
  virtual std::shared_ptr<const Dataset> before_normalising() const { return nullptr; }

  /// A way to the same samples() that reads no more of an image than is wanted; null where there is none,
  /// or it would not be the same. Part of this dataset.
  virtual const ImageParts* image_parts() const { return nullptr; }

  /// The order of an epoch, where any other one is dear to read (shards that are read from their
  /// start): every sample once over all ranks, see Note [Position in an epoch]. Null: any will do.
  virtual std::shared_ptr<const Sampler> own_sampler(const EpochShare& share) const;

  /// Tells these samples from others of the same number: checkpoints keep it, ranks compare it. The
  /// same in every process that reads the same data; 32 bits, so it is proof against mistakes, not
  /// against intent. Here a CRC-32 over the number of samples and 64 of them, spread evenly, as
  /// they are loaded with an empty context, so a change elsewhere goes unseen; datasets that hold
  /// their samples in memory take all of them (about 10 GB/s). Override it where loading 64
  /// samples is dear, or processes do not load the same bits.
  virtual uint32_t fingerprint() const;

 private:
  /// Fills a batch, whose `indices` are these, which are in range. Allocate its tensors once and
  /// write each sample to its row.
  virtual Batch load(std::span<const int64_t> indices, const SampleContext& context) const = 0;

  /// The indices are in range. Here the rows of load(), which share its memory.
  virtual std::vector<Sample> load_samples(std::span<const int64_t> indices,
                                           const SampleContext& context) const;
};

/// The batch's samples, which share its memory. Throws a usage error for a tensor that has not a row
/// for each (ragged lists).
std::vector<Sample> rows_of(const Batch& batch);

enum class Split { kTrain, kTest };

/// "train" or "test".
std::string_view to_string(Split split);

/// What the user asked for: `--data mnist --data-dir ~/mnist`.
struct DatasetRequest {
  std::filesystem::path data_dir;  ///< empty: the places where the entry looks by itself
  Split split = Split::kTrain;
  ParamValues params;  ///< "samples=512" of "synthetic:samples=512"
  /// Dataset::learned() of a run's training split: samples are read by it, and nothing is learned
  /// anew. Empty: it is learned.
  std::string learned = {};
  /// With `learned`: these are not the files that it was learned from, and nobody has trained on them:
  /// nothing need be held out, and targets may be missing.
  bool is_other = false;
  /// With `is_other`: answers are to be measured, and targets may not be missing. Datasets that know what the target
  /// is called refuse files without it by that name.
  bool needs_targets = false;
};

/// A dataset by name. One file of datasets/ each; see Note [Generated tables].
struct DatasetEntry {
  static constexpr std::string_view kKind = "dataset";

  std::string_view name;
  std::string_view help;
  std::span<const Param> params;
  /// Reads the split into memory. Throws a usage error for unknown parameters or files that are not
  /// there, an environment error for files that are damaged.
  std::shared_ptr<const Dataset> (*open)(const DatasetRequest& request);
};

/// A dataset as a user names it: "synthetic:samples=512", or "folder:/pets,size=224", where what comes
/// first is the parameter "path". Throws as parse_spec().
Spec parse_dataset_spec(std::string_view text);

/// All datasets of datasets/.
EntryTable<DatasetEntry> datasets();

}  // namespace muster::data
