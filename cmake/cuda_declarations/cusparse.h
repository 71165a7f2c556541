// The declarations with which c10d compiles where the library's own header is missing. That header comes first if it is there.
#pragma once

typedef struct cusparseContext* cusparseHandle_t;

typedef enum { CUSPARSE_STATUS_SUCCESS = 0 } cusparseStatus_t;
