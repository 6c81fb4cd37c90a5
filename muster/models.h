// muster::models: the zoo, with torchvision's names.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/models/layers/dropout.h"
#include "muster/models/layers/layers.h"
#include "muster/models/model.h"
#include "muster/models/weights.h"
