// The paths of the machine that sandboxes see. They are taken before the root folder changes, and put at the same
// places below the new one. A read-only mount does not stop a process from sending through a unix socket or a FIFO. In
// a shown folder no process of a sandbox can, whatever the file's mode:
//
//   root     the mounts map the owners of all files to nobody (MapOwners), and the kernel denies every write. If a file
//            system cannot map owners, as for others
//   others   an empty file covers each socket and FIFO that exists when the root folder is built; the walk ends after
//            1,000,000 entries. A socket or FIFO that is made later is open
//
// A socket or FIFO that is itself a shown path, as sandbox.visible may name one, stays what it is.
#pragma once

#include <cstdint>

namespace ingot::sandbox::launcher {

// The id that all files of shown folders belong to; no file does.
inline constexpr uint32_t kNobodysId = 4294967293;

// Takes the file or folder at `path`; a missing path is skipped. `nobody`: a user namespace of kNobodysId; -1 = owners
// stay. Returns 0 or errno.
int TakeShown(const char* path, int nobody);

// Takes a folder below which root folders of images may lie. Images map owners themselves, and a mount does so once:
// they are taken from a second copy, whose owners stay. It is at kSources + `path` until LeaveSources. A missing path
// is skipped.
inline constexpr char kSources[] = "/.sources";
int TakeSource(const char* path);

// Takes the copies of TakeSource out of the sight of a sandbox that has no image.
int LeaveSources();

// Puts what was taken at its places below the current folder, in the order in which it was taken, and covers what is to
// be covered. Returns 0 or errno.
int PlaceShown();

}  // namespace ingot::sandbox::launcher
