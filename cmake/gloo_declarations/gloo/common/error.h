// See gloo/context.h: c10d's header includes it and uses nothing of it.
#pragma once
