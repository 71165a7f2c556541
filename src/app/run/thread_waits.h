// How the threads of torch's own operators wait for one another; those of our kernels are crews (kernels/crew.h).
#pragma once

namespace ingot::app {

// Makes OpenMP's threads sleep after some 40 us of spinning, and starts this program anew with that setting, because
// libgomp reads its environment before main. Its default spins for milliseconds: a thread that waits then takes the core
// of the thread that it waits for, wherever other processes need cores too (docs/results/figures.md). Returns at once if the
// environment has GOMP_SPINCOUNT or OMP_WAIT_POLICY, also the second time, and if the program cannot be started anew.
void BoundSpinning(char** argv);

}  // namespace ingot::app
