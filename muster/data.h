// muster::data: datasets, samplers and loaders.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/data/collate.h"
#include "muster/data/dataset.h"
#include "muster/data/fingerprint.h"
#include "muster/data/loader/device_batches.h"
#include "muster/data/loader/loader.h"
#include "muster/data/rng.h"
#include "muster/data/samplers/distributed.h"
#include "muster/data/samplers/exact_cover.h"
#include "muster/data/samplers/random.h"
#include "muster/data/samplers/sequential.h"
#include "muster/data/sets/image_dataset.h"
#include "muster/data/sets/sample_dataset.h"
#include "muster/data/sets/split.h"
#include "muster/data/sets/subset_dataset.h"
#include "muster/data/sets/tensor_dataset.h"
#include "muster/data/stream/stream_dataset.h"
#include "muster/data/stream/stream_sampler.h"
#include "muster/data/transform/transform.h"
#include "muster/data/transform/transformed.h"
#include "muster/data/transforms/fit_images.h"
