// muster::testing: ranks as threads, for tests.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/testing/run_ranks.h"
