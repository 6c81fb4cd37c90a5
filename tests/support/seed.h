// The seed of a test that draws at random.
#pragma once

#include <cstdlib>
#include <optional>
#include <random>

namespace muster::test {

/// MUSTER_TEST_SEED, with which a failed run is repeated; else `usual`; else one that nobody has
/// had yet. The test says it: SCOPED_TRACE(concat("repeat with MUSTER_TEST_SEED=", seed)).
inline unsigned seed_of_test(std::optional<unsigned> usual = {}) {
  if (const char* given = std::getenv("MUSTER_TEST_SEED")) return unsigned(std::atoi(given));
  return usual ? *usual : std::random_device{}();
}

}  // namespace muster::test
