// How large a model can be before anything of it is made.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace muster::models {

/// Four terabytes of float32; products of sizes below it fit 64 bits.
inline constexpr int64_t kMostWeights = 1'000'000'000'000;
/// Of one kind in a model; each is an object of its own.
inline constexpr int64_t kMostLayers = 65'536;

/// Factors of a number of weights: {layers, 4, hidden, hidden}.
using SizeProduct = std::initializer_list<int64_t>;

/// Refuses a model whose weights, the sum of these products, are more than kMostWeights; they are
/// counted so that no product wraps. `sizes`: the options that they follow from, as they are typed:
/// "hidden=128,layers=2". Throws a usage error.
void check_weights(std::string_view model,
                   std::initializer_list<SizeProduct> products,
                   const std::string& sizes);

}  // namespace muster::models
