// How much of the space of losses a set of results dominates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "muster/tune/objective/domination.h"

namespace muster::tune {

/// The volume between the losses and `reference`, exactly: what lies beyond the reference adds
/// nothing; infinite if a loss is -infinity, or the reference is not finite. A sweep for two
/// objectives, O(n log n); for more, exclusive volumes one after the other. Source: While, Bradstreet,
/// Barone 2012, "A fast way of calculating exact hypervolumes" (WFG); numbers as optuna 5.0.0.
double hypervolume(std::span<const Losses> losses, std::span<const double> reference);

/// Places of `count` that together dominate much volume: each time the one that adds most, which is
/// at least 1 - 1/e of what is possible. Of equal ones the first alone, until there are no others.
/// Where the reference is not finite, the first ones in lexical order. Source: Guerreiro, Fonseca,
/// Paquete 2016, "Greedy hypervolume subset selection in low dimensions"; as optuna 5.0.0.
std::vector<size_t> hypervolume_subset(std::span<const Losses> losses,
                                       size_t count,
                                       std::span<const double> reference);

/// A reference a tenth beyond the worst of these, as Optuna's TPE takes it.
Losses reference_beyond(std::span<const Losses> losses);

/// Places of the `count` best of these: front by front, of the last one a hypervolume subset; sorted. Source: optuna 5.0.0, _split_complete_trials_multi_objective.
std::vector<size_t> best_by_fronts(std::span<const Losses> losses, size_t count);

}  // namespace muster::tune
