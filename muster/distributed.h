// muster::distributed: groups of ranks: processes or threads.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/distributed/device_mesh.h"
#include "muster/distributed/meet/backend.h"
#include "muster/distributed/monitor/monitor.h"
#include "muster/distributed/process_group.h"
