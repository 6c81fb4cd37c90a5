// muster::program: what a program with a command line is made of.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/program/end_process.h"
#include "muster/program/rank_failure.h"
#include "muster/program/screen/console.h"
#include "muster/program/screen/live_bar.h"
#include "muster/program/screen/reporter.h"
