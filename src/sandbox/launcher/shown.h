// Copies the host paths that sandboxes see before the root folder changes, and attaches them at the same places below
// the new root. A read-only mount alone does not prevent a process from sending data through a Unix socket or a FIFO.
// The following prevents it for files in shown folders, regardless of their mode:
//
//   root     the mounts map the owners of all files to nobody (MapOwners), so the kernel denies all writes. If a file
//            system cannot map owners, the rule for others applies
//   others   an empty file covers each socket and FIFO that exists when the root folder is built. The search stops
//            after 1,000,000 entries. Sockets and FIFOs created later are not covered
//
// A socket or FIFO that is itself listed as a shown path, for example in sandbox.visible, stays usable.
#pragma once

#include <cstdint>

namespace ingot::sandbox::launcher {

// The id that owns all files in shown folders after mapping. It owns no other files.
inline constexpr uint32_t kNobodysId = 4294967293;

// Copies the file or folder at `path` and skips a missing path. `nobody` is a user namespace for kNobodysId; -1 = do
// not map owners. Returns 0 or errno.
int TakeShown(const char* path, int nobody);

// Copies a folder that contains image root folders and skips a missing path. An image maps owners itself, and a mount
// can do that only once, so images use a second copy without mapped owners. It is at kSources + `path` until
// LeaveSources is called.
inline constexpr char kSources[] = "/.sources";
int TakeSource(const char* path);

// Hides the copies of TakeSource from a sandbox without an image.
int LeaveSources();

// Attaches the copies below the current directory, in the order they were made, and covers sockets and FIFOs. Returns 0
// or errno.
int PlaceShown();

}  // namespace ingot::sandbox::launcher
