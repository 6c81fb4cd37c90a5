// How long a client of c10d's store waits for an answer.
#pragma once

#include <chrono>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace muster::distributed {

// Note [The socket of c10d's client]
// A rank 0 that is stopped while ranks meet would hold them for ever: c10d's client waits for an answer
// without limit, and TCPStore's timeout is the server's to keep. The limit is one of the client's
// socket, which no function of TCPStore gives away (as of LibTorch 2.15): its text alone names it,
// "TCPStore(client=TCPClient(SocketImpl(fd=7, …". That it still does is what
// tests/distributed/meet/answer_limit_test.cpp is for.

/// So long `store`, a TCPStore, waits for an answer to what it asks; 0: without limit, as c10d has it.
/// False, and no limit: it is no TCPStore, or the one socket that its text names is not connected to
/// the store's port.
bool limit_answers(const c10d::Store& store, std::chrono::milliseconds limit);

}  // namespace muster::distributed
