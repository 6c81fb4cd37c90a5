// muster::base: errors, options, JSON and text: what the other rooms speak in.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/base/entry.h"
#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/params.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
