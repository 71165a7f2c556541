#pragma once

#include <cstdint>

// What the stand-in offers beside the runtime's own functions.
extern "C" {

// Where the process may access `pointer`: the mirror's address of device memory (memory.h), else the same.
void* ingot_standin_reach(const void* pointer);

// The process's launches of kernels so far, and its calls of torch's operators on a device, each of which is at least
// one launch on a GPU.
uint64_t ingot_standin_launches();
uint64_t ingot_standin_operators();
void ingot_standin_count_operator();
}
