// One parameter of a W&B sweep as a domain. See Note [W&B sweeps].
#pragma once

#include "muster/tune/files/yaml_map.h"
#include "muster/tune/space/domain.h"

namespace muster::tune {

/// With `grid`, what W&B's method grid tries: all values, as a grid_search. Throws a usage error
/// that begins with the place for what has no counterpart.
Domain read_sweep_domain(YamlMap& map, bool grid);

}  // namespace muster::tune
