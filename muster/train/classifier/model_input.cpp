#include "muster/train/classifier/model_input.h"

#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::train {
namespace {

[[noreturn]] void refuse_input(const models::ModelEntry& entry,
                               const std::string& data,
                               std::string rule,
                               std::string value,
                               std::string hint = "see `muster list datasets`") {
  throw usage_error({.refused = concat("model ", entry.name, " cannot take the data ", data),
                     .rule = std::move(rule),
                     .value = std::move(value),
                     .hint = std::move(hint)});
}

std::string models_that_do(const std::vector<std::string>& names) {
  return concat("models that do: ", join(names, ", "));
}

}  // namespace

models::ImageShape input_shape(const models::ModelEntry& entry,
                               const data::DataSpec& spec,
                               const std::string& data,
                               bool is_regression) {
  if (spec.classes < 2 && !is_regression) {
    refuse_input(entry,
                 data,
                 "the models tell classes apart, two at least",
                 spec.classes == 1 ? "1 class" : "none");
  }
  if (spec.is_image()) {
    return models::fitted_shape(entry,
                                {.channels = spec.channels(),
                                 .height = spec.height(),
                                 .width = spec.width(),
                                 .classes = spec.classes});
  }
  const bool is_row = spec.sample_shape.size() == 1;
  if (spec.is_tokens() && is_row && spec.vocabulary > 0) {
    if (!entry.takes_tokens)
      refuse_input(entry,
                   data,
                   "it does not read tokens",
                   "texts",
                   models_that_do(models::models_for_tokens()));
    return {.channels = 1,
            .height = 1,
            .width = spec.width(),
            .classes = spec.classes,
            .vocabulary = spec.vocabulary,
            .padding = spec.padding};
  }
  if (spec.what() == data::DataKind::kTensor && is_row) {
    if (!entry.takes_numbers)
      refuse_input(entry,
                   data,
                   "it does not take rows of numbers",
                   concat(spec.width(), " numbers a sample"),
                   models_that_do(models::models_for_numbers()));
    return {.channels = 1,
            .height = 1,
            .width = spec.width(),
            .classes = is_regression ? 1 : spec.classes};
  }
  refuse_input(entry,
               data,
               "the models take images, tokens of a vocabulary, or rows of numbers",
               std::string(data::to_string(spec.what())));
}

}  // namespace muster::train
