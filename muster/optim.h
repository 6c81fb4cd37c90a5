// muster::optim: optimizers on fused kernels, learning-rate schedules, clipping.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/optim/clip.h"
#include "muster/optim/grouped_optimizer.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/schedule.h"
