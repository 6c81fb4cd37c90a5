#include "muster/train/plan/fit_data.h"

#include "muster/formats/crc32.h"

namespace muster::train {
namespace {

int64_t size_of(const std::shared_ptr<const data::Dataset>& split) {
  return split ? split->size() : 0;
}

std::string fingerprint_of(const std::shared_ptr<const data::Dataset>& split) {
  return split ? formats::crc32_text(split->fingerprint()) : "";
}

}  // namespace

SplitFacts FitData::facts() const {
  return {.train = size_of(train),
          .validation = size_of(validation),
          .test = size_of(test),
          .train_fingerprint = fingerprint_of(train),
          .test_fingerprint = fingerprint_of(test),
          .validation_fingerprint = fingerprint_of(validation)};
}

}  // namespace muster::train
