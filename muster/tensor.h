// muster::tensor: tensors in files, and what LibTorch needs to know of threads and devices.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/tensor/batch_norm.h"
#include "muster/tensor/bfloat16.h"
#include "muster/tensor/device/copy_stream.h"
#include "muster/tensor/device/device_kinds.h"
#include "muster/tensor/device/generators.h"
#include "muster/tensor/device/math_modes.h"
#include "muster/tensor/device/pinned_ring.h"
#include "muster/tensor/index_watch.h"
#include "muster/tensor/intraop_threads.h"
#include "muster/tensor/safetensors.h"
#include "muster/tensor/saved_tensors.h"
#include "muster/tensor/unit_call.h"
#include "muster/tensor/unseen_taps.h"
#include "muster/tensor/vector_math.h"
