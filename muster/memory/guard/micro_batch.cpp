#include "muster/memory/guard/micro_batch.h"

#include <cmath>
#include <numeric>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::memory {
namespace {

double sum_of(c10::ArrayRef<double> weights) {
  return std::accumulate(weights.begin(), weights.end(), 0.0);
}

void check_weights(c10::ArrayRef<int64_t> rows, c10::ArrayRef<double> weights) {
  if (weights.empty()) return;
  const int64_t all = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  if (static_cast<int64_t>(weights.size()) != all) {
    throw usage_error({.refused = "the weights of a step's rows",
                       .rule = "one for each row",
                       .value = concat(weights.size(), " for ", all, " rows")});
  }
  for (const double weight : weights) {
    if (weight >= 0 && std::isfinite(weight)) continue;
    throw usage_error({.refused = "the weight of a row",
                       .rule = "a number of at least 0",
                       .value = shortest(weight)});
  }
}

}  // namespace

std::vector<MicroBatch> micro_batches(c10::ArrayRef<int64_t> rows,
                                      int64_t most,
                                      c10::ArrayRef<double> weights) {
  if (most < 0) {
    throw usage_error({.refused = "a micro-batch",
                       .rule = "at least one row, or 0 for whole batches",
                       .value = std::to_string(most)});
  }
  check_weights(rows, weights);
  std::vector<MicroBatch> pieces;
  size_t before = 0;  // rows of the batches before this one
  for (size_t batch = 0; batch < rows.size(); ++batch) {
    const int64_t all = rows[batch];
    if (all < 1) {
      throw usage_error({.refused = "a guarded step",
                         .rule = "its batches have at least one row",
                         .value = std::to_string(all)});
    }
    const int64_t parts = most == 0 ? 1 : all / most + (all % most != 0 ? 1 : 0);
    const auto own = weights.empty() ? weights : weights.slice(before, static_cast<size_t>(all));
    const double total = weights.empty() ? static_cast<double>(all) : sum_of(own);
    if (!(total > 0)) {
      throw usage_error({.refused = "the weights of a batch's rows",
                         .rule = "above 0 together",
                         .value = "0: its mean loss is over nothing"});
    }
    int64_t begin = 0;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t size = all / parts + (part < all % parts ? 1 : 0);
      const double share =
          weights.empty()
              ? static_cast<double>(size)
              : sum_of(own.slice(static_cast<size_t>(begin), static_cast<size_t>(size)));
      pieces.push_back({.begin = begin,
                        .end = begin + size,
                        .batch = static_cast<int64_t>(batch),
                        .is_whole = parts == 1,
                        .weight = parts == 1 ? 1 : share / total});
      begin += size;
    }
    before += static_cast<size_t>(all);
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    pieces[i].index = static_cast<int64_t>(i);
    pieces[i].count = static_cast<int64_t>(pieces.size());
  }
  return pieces;
}

}  // namespace muster::memory
