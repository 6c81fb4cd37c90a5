// muster::memory: who holds the bytes of a program, and what leaks.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/memory/allocator/counters.h"
