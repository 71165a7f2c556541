// The declarations with which c10d compiles where the library's own header is missing. That header comes first if it is there.
#pragma once

typedef struct cusolverDnContext* cusolverDnHandle_t;
