// Values that a user types: "lr=0.1 width=64".
#pragma once

#include <map>
#include <span>
#include <string>

#include "muster/tune/space/space.h"

namespace muster::tune {

/// From words NAME=VALUE, of which each parameter has at most one. A value is that of the parameter's
/// that is shown so (a choice's text, also where it looks like a number), else a number, true, false
/// or a text. Whether it is in the domain is Space::point_of's to say. Throws a usage error for a
/// word of another form, a parameter that is unknown (nearest name as hint) or given twice. Pure.
std::map<std::string, Value> values_of_words(const Space& space,
                                             std::span<const std::string> words);

}  // namespace muster::tune
