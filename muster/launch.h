// muster::launch: starts programs as ranks, as torchrun does.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/launch/job/job.h"
#include "muster/launch/job/launcher.h"
