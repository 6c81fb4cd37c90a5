// muster::memory: who holds the bytes of a program, and what leaks.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/memory/allocator/counters.h"
#include "muster/memory/allocator/cpu_memory.h"
#include "muster/memory/allocator/release.h"
#include "muster/memory/allocator/scope.h"
#include "muster/memory/leak/leak_finder.h"
#include "muster/memory/tracker/tracker.h"
