#include "muster/models/model.h"

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::models {

std::shared_ptr<Classifier> make_model(std::string_view name,
                                       const ImageShape& shape,
                                       const ParamValues& params) {
  const ModelEntry& entry = models().at(name);
  if (shape.height < entry.min_size || shape.width < entry.min_size) {
    throw usage_error(
        {.refused = concat("model ", name, " cannot take this data"),
         .rule =
             concat("its images are at least ", entry.min_size, " x ", entry.min_size, " pixels"),
         .value = concat(shape.height, " x ", shape.width),
         .hint = "choose larger images or another model (muster list models)"});
  }
  if (entry.channels != 0 && shape.channels != entry.channels) {
    throw usage_error(
        {.refused = concat("model ", name, " cannot take this data"),
         .rule = concat(
             "its images have ", entry.channels, entry.channels == 1 ? " channel" : " channels"),
         .value = concat(shape.channels),
         .hint = "choose other data or another model (muster list models)"});
  }
  if (shape.classes < 2) {
    throw usage_error({.refused = concat("model ", name, " cannot take this data"),
                       .rule = "a classifier tells at least two classes apart",
                       .value = concat(shape.classes, " classes")});
  }
  return entry.make(shape, params);
}

}  // namespace muster::models
