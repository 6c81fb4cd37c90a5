// muster::pipeline: schedules of pipelines as data: lists of actions, checks, simulation, drawings.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/pipeline/draw/gantt.h"
#include "muster/pipeline/draw/text_drawing.h"
#include "muster/pipeline/order/check.h"
#include "muster/pipeline/order/lower.h"
#include "muster/pipeline/partition/plan.h"
#include "muster/pipeline/schedule/schedule.h"
#include "muster/pipeline/simulate/simulator.h"
#include "muster/pipeline/simulate/waiting_letters.h"
