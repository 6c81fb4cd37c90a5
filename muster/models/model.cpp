#include "muster/models/model.h"

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/models/layers/dropout.h"

namespace muster::models {

void Classifier::set_generator(const at::Generator& generator) {
  models::set_generator(*this, generator);
}

std::vector<tensor::ChainedUnit> Classifier::chain() {
  std::vector<tensor::ChainedUnit> chain;
  for (ModelPart& part : parts()) {
    chain.push_back(
        {.name = std::move(part.name),
         .modules = std::move(part.modules),
         .parameters = std::move(part.parameters),
         .forward = [forward = std::move(part.forward)](const std::vector<at::Tensor>& inputs) {
           return std::vector<at::Tensor>{forward(inputs.at(0))};
         }});
  }
  return chain;
}

at::Tensor Classifier::forward(at::Tensor images) {
  std::call_once(called_.once, [this] { called_.parts = parts(); });
  at::Tensor x = std::move(images);
  for (const ModelPart& part : called_.parts) x = tensor::call_unit(part.name, part.forward, x);
  return x;
}

namespace {

std::vector<std::string> models_with(bool ModelEntry::*can) {
  std::vector<std::string> names;
  for (const ModelEntry* entry : models())
    if (entry->*can) names.emplace_back(entry->name);
  return names;
}

}  // namespace

std::vector<std::string> models_for_tokens() { return models_with(&ModelEntry::takes_tokens); }
std::vector<std::string> models_for_numbers() { return models_with(&ModelEntry::takes_numbers); }

std::shared_ptr<Classifier> make_model(std::string_view name,
                                       const ImageShape& shape,
                                       const ParamValues& params) {
  const ModelEntry& entry = models().at(name);
  if (shape.vocabulary > 0 && !entry.takes_tokens) {
    throw usage_error({.refused = concat("model ", name, " cannot take this data"),
                       .rule = "it does not read tokens",
                       .value = concat("a vocabulary of ", shape.vocabulary),
                       .hint = concat("models that do: ", join(models_for_tokens(), ", "))});
  }
  const bool is_small = shape.height < entry.min_size || shape.width < entry.min_size;
  if (shape.vocabulary == 0 && is_small) {
    throw usage_error(
        {.refused = concat("model ", name, " cannot take this data"),
         .rule =
             concat("its images are at least ", entry.min_size, " x ", entry.min_size, " pixels"),
         .value = concat(shape.height, " x ", shape.width),
         .hint = "choose larger images or another model (muster list models)"});
  }
  if (shape.vocabulary == 0 && entry.channels != 0 && shape.channels != entry.channels) {
    throw usage_error(
        {.refused = concat("model ", name, " cannot take this data"),
         .rule = concat(
             "its images have ", entry.channels, entry.channels == 1 ? " channel" : " channels"),
         .value = concat(shape.channels),
         .hint = "choose other data or another model (muster list models)"});
  }
  if (shape.classes < 1) {  // the one of a regression is a number
    throw usage_error({.refused = concat("model ", name, " cannot take this data"),
                       .rule = "it answers with a score for each class, or with one number",
                       .value = concat(shape.classes, " classes")});
  }
  return entry.make(shape, params);
}

ImageShape fitted_shape(const ModelEntry& entry, const ImageShape& data) {
  ImageShape fitted = data;
  if (entry.channels != 0 && data.channels != entry.channels) {
    if (data.channels != 1) {
      throw usage_error(
          {.refused = concat("model ", entry.name, " cannot take this data"),
           .rule =
               concat("its images have ", entry.channels, " channels; only one can be repeated"),
           .value = concat(data.channels, " channels"),
           .hint = "choose other data or another model (muster list models)"});
    }
    fitted.channels = entry.channels;
  }
  const int64_t least = std::min(data.height, data.width);
  if (least < 1) {
    throw usage_error({.refused = concat("model ", entry.name, " cannot take this data"),
                       .rule = "an image has at least one pixel",
                       .value = concat(data.height, " x ", data.width)});
  }
  if (least < entry.min_size) {
    fitted.height = entry.min_size * data.height / least;
    fitted.width = entry.min_size * data.width / least;
  }
  return fitted;
}

}  // namespace muster::models
