// muster::testing: ranks as threads, fake accelerators, CPU memory that is full, for tests.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/testing/accelerator/fake_accelerator.h"
#include "muster/testing/accelerator/fake_kind.h"
#include "muster/testing/cpu/limited_cpu.h"
#include "muster/testing/run_ranks.h"
