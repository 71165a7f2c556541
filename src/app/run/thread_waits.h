// Configures how threads in torch's own operators wait for each other. Our kernels use crews (kernels/crew.h).
#pragma once

namespace ingot::app {

// Makes OpenMP threads sleep after spinning for about 40 us. Restarts this program with that setting, because libgomp
// reads its environment before main. By default, OpenMP spins for milliseconds. If other processes also need the cores,
// a waiting thread may then occupy the core that the other thread needs (docs/results/figures.md). Returns immediately
// if the environment has GOMP_SPINCOUNT or OMP_WAIT_POLICY, which is the case after the restart, or if the program
// cannot be restarted.
void BoundSpinning(char** argv);

}  // namespace ingot::app
