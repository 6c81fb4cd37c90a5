// muster::tune: hyperparameter search, and what a trial says to its tuner.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/tune/plot/plot_page.h"
#include "muster/tune/run/run.h"
#include "muster/tune/schedule/asha/asha_options.h"
#include "muster/tune/schedule/hyperband/hyperband_options.h"
#include "muster/tune/schedule/median/median_options.h"
#include "muster/tune/schedule/pbt/pbt_options.h"
#include "muster/tune/schedule/scheduler.h"
#include "muster/tune/search/searcher.h"
#include "muster/tune/searchers/bohb.h"
#include "muster/tune/searchers/cma_es.h"
#include "muster/tune/searchers/gp.h"
#include "muster/tune/searchers/random_then_grid.h"
#include "muster/tune/searchers/sobol.h"
#include "muster/tune/searchers/tpe.h"
#include "muster/tune/space/space.h"
#include "muster/tune/storage/storage.h"
#include "muster/tune/trial/report.h"
#include "muster/tune/trial/trial.h"
#include "muster/tune/views/history.h"
#include "muster/tune/views/table_reporter.h"
