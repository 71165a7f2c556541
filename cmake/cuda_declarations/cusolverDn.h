// What c10d says of it to be compiled without the library's own header, which is found first where there is one.
#pragma once

typedef struct cusolverDnContext* cusolverDnHandle_t;
