#include "muster/models/layers/size_limits.h"

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::models {

void check_weights(std::string_view model,
                   std::initializer_list<SizeProduct> products,
                   const std::string& sizes) {
  double weights = 0;
  for (const SizeProduct& product : products) {
    double factors = 1;
    for (const int64_t factor : product) factors *= static_cast<double>(factor);
    weights += factors;
  }
  if (weights <= static_cast<double>(kMostWeights)) return;
  throw usage_error({.refused = concat("model ", model),
                     .rule = concat("it has at most ", kMostWeights, " weights"),
                     .value = sizes});
}

}  // namespace muster::models
