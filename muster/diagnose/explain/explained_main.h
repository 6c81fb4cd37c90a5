// A program that explains its own end.
#pragma once

#include <functional>

namespace muster::diagnose {

/// Runs `program` and returns what it returns, for main to return. What it throws is written to stderr,
/// and behind it what `muster doctor` would say of it: the first cause, how sure that is, the next step,
/// and the checks of this machine that go with it. Then the exit code is that of a muster::Error, else 1.
/// An error that nobody knows has its text alone.
///
/// What ends the process from another thread (std::terminate: an exception that leaves a thread, or is
/// thrown while another is under way) is explained too, before the process aborts. A signal is not: that
/// is for `muster doctor -- PROGRAM`, which looks on from outside.
///
///     int main(int argc, char** argv) {
///       return muster::diagnose::explained_main([&] { return train(argc, argv); });
///     }
///
/// Once at a time in a process. Throws nothing.
int explained_main(const std::function<int()>& program) noexcept;

}  // namespace muster::diagnose
