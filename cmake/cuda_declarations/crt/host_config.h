// Nothing: what a host compiler needs of the compiler's own header, which comes first if it is there.
#pragma once
