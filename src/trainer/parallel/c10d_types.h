// Declares the c10d classes that headers refer to. c10d's own headers include every ATen operator, 4,000 files, which
// takes seconds in each object.
#pragma once

namespace c10d {
class Backend;
class Store;
class Work;
}  // namespace c10d
