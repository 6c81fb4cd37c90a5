// From what is computed to what is carried out: messages between ranks, and averages over replicas.
#pragma once

#include "muster/pipeline/order/dependencies.h"

namespace muster::pipeline {

/// The same lists with a SEND and a RECV wherever data crosses ranks. Buffered: each is sent right
/// behind what makes it and received right before what needs it; nothing waits longer than in the
/// lists without messages. Rendezvous: both ends stand where the message is ready when F, I and W
/// take one unit of time and B two, so that all ranks come to their messages in one order, and no
/// circle can be. Throws a usage error for lists that cannot run or have messages already.
ActionLists lower(const ActionLists& lists, Sends sends);

/// With REDUCE_GRAD behind the last B or W of each stage. Throws as lower().
ActionLists with_averages(const ActionLists& lists);

}  // namespace muster::pipeline
