// muster::track: what a run records: metrics, progress, TensorBoard, a page.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/track/metrics_log.h"
#include "muster/track/metrics_reader.h"
#include "muster/track/page/curves.h"
#include "muster/track/page/run_page.h"
#include "muster/track/picture/contact_sheet.h"
#include "muster/track/picture/picture_png.h"
#include "muster/track/picture/picture_svg.h"
#include "muster/track/progress.h"
#include "muster/track/tensorboard/hparams.h"
#include "muster/track/tensorboard/tensorboard.h"
