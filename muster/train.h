// muster::train: training with checkpoints that resume exactly.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/train/checkpoints/checkpoint.h"
#include "muster/train/checkpoints/model_state.h"
#include "muster/train/checkpoints/saved_weights.h"
#include "muster/train/classifier/asked_classifier.h"
#include "muster/train/classifier/classifier_task.h"
#include "muster/train/classifier/predictions_csv.h"
#include "muster/train/classifier/train_plan.h"
#include "muster/train/classifier/trainer.h"
#include "muster/train/loop/evaluate.h"
#include "muster/train/loop/fit.h"
#include "muster/train/loop/predict.h"
#include "muster/train/loop/resolve.h"
#include "muster/train/metrics/confusion_matrix.h"
#include "muster/train/metrics/loss.h"
#include "muster/train/plan/options.h"
#include "muster/train/program/preview.h"
#include "muster/train/program/run_program.h"
#include "muster/train/program/task_program.h"
#include "muster/train/replicas/strategy.h"
#include "muster/train/task/task.h"
