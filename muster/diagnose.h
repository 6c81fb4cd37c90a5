// muster::diagnose: what happened in a run and who began it.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/diagnose/catalogue/error_row.h"
#include "muster/diagnose/devices/available_devices.h"
#include "muster/diagnose/devices/machine_status.h"
#include "muster/diagnose/devices/published_state.h"
#include "muster/diagnose/explain/diagnosis_text.h"
#include "muster/diagnose/explain/explained_main.h"
#include "muster/diagnose/log/log_diagnosis.h"
#include "muster/diagnose/log/log_reader.h"
#include "muster/diagnose/record/diagnosis.h"
#include "muster/diagnose/record/failure_note.h"
#include "muster/diagnose/record/fault_plan.h"
#include "muster/diagnose/record/flight_recorder.h"
#include "muster/diagnose/surroundings/check.h"
#include "muster/diagnose/trace/timeline.h"
