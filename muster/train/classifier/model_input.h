// What a model of the zoo sees of a dataset's samples.
#pragma once

#include <string>

#include "muster/data/dataset.h"
#include "muster/models/model.h"

namespace muster::train {

/// Images in the size and with the channels that the model takes; token ids; or rows of numbers, as an
/// image of one row. `is_regression`: it answers with one number, which counts as one class. Throws a usage
/// error for samples that the model does not take, and for fewer than two classes where it is none; `data`
/// names them there.
models::ImageShape input_shape(const models::ModelEntry& entry,
                               const data::DataSpec& spec,
                               const std::string& data,
                               bool is_regression = false);

}  // namespace muster::train
