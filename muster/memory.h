// muster::memory: who holds the bytes of a program, what leaks, and what to do when they run out.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/memory/allocator/counters.h"
#include "muster/memory/allocator/cpu_memory.h"
#include "muster/memory/allocator/release.h"
#include "muster/memory/allocator/scope.h"
#include "muster/memory/batch/batch_finder.h"
#include "muster/memory/estimate/estimate.h"
#include "muster/memory/guard/guard.h"
#include "muster/memory/guard/oom.h"
#include "muster/memory/leak/leak_finder.h"
#include "muster/memory/report/explain.h"
#include "muster/memory/snapshot/allocation_history.h"
#include "muster/memory/tracker/recent.h"
#include "muster/memory/tracker/tracker.h"
