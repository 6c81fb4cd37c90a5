// muster::testing: ranks as threads and fake accelerators, for tests.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/testing/accelerator/fake_accelerator.h"
#include "muster/testing/accelerator/fake_kind.h"
#include "muster/testing/run_ranks.h"
