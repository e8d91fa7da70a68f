#pragma once
// How long threads of GNU OpenMP, which LibTorch computes with, spin while they
// wait for each other.

namespace osdn {

/// Starts the program again, in the same process and with the same arguments,
/// with GOMP_SPINCOUNT=1000 in its environment; the library reads that only
/// while it is loaded. Returns when it is set already, when OMP_WAIT_POLICY is,
/// or when the system refuses. Call it before anything is done that a second
/// start would do twice.
///
/// By default a waiting thread spins for milliseconds. On cores that are shared
/// with anyone it so takes away the time that the thread it waits for needs:
/// with 20 runnable processes on two cores a step of the quickstart took 25 s
/// instead of 2.5 s. A thousand turns are some ten microseconds, enough for
/// waits between threads that do run.
void restart_with_short_spin(char** argv);

}  // namespace osdn
