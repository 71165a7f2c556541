// The declarations with which c10d compiles where the library's own header is missing. That header comes first if it is there.
#pragma once

typedef enum { CUSOLVER_STATUS_SUCCESS = 0 } cusolverStatus_t;
