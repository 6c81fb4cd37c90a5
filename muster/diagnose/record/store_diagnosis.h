// What the store of a group has to do with it that an operation does not end.
#pragma once

#include <span>

#include "muster/diagnose/record/diagnosis.h"

namespace muster::diagnose {

/// What the user may do about it; empty: nothing is known.
const char* hint_of(Diagnosis::Kind kind);

/// The verdict where the store is gone or gives no answer: nobody else's state can be known. Pure.
Diagnosis of_store(const StoreView& store, std::span<const PeerView> peers);

}  // namespace muster::diagnose
