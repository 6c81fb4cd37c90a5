// muster::parallel: one model on many devices.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/distributed.h"
#include "muster/parallel/activations/blocks.h"
#include "muster/parallel/activations/checkpointed.h"
#include "muster/parallel/activations/offload.h"
#include "muster/parallel/activations/unit_checkpoints.h"
#include "muster/parallel/batch_norm/batch_norms_over_ranks.h"
#include "muster/parallel/batch_norm/sync_batch_norm.h"
#include "muster/parallel/ddp/ddp.h"
#include "muster/parallel/ddp/join.h"
#include "muster/parallel/hook/comm_hook.h"
#include "muster/parallel/pipeline/measure.h"
#include "muster/parallel/pipeline/pipeline.h"
#include "muster/parallel/pipeline_ranks/distributed_pipeline.h"
#include "muster/parallel/precision/autocast.h"
#include "muster/parallel/precision/grad_scaler.h"
#include "muster/parallel/replicas/data_parallel.h"
#include "muster/parallel/replicas/gradient_average.h"
#include "muster/parallel/sharded/zero.h"
