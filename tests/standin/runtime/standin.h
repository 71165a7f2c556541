#pragma once

// What the stand-in offers beside the runtime's own functions.
extern "C" {

// Where the process may access `pointer`: the mirror's address of device memory (memory.h), else the same.
void* ingot_standin_reach(const void* pointer);
}
