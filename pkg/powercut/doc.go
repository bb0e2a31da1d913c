// Package powercut is a file system that forgets what was not synced, to put
// a database or a broker on and take its power away. It is test tooling; no
// binary of the product links it.
//
// kill -9 is no power cut: the kernel's page cache survives it, so a program
// that never calls fsync loses nothing. A Disk keeps every file and directory
// twice, as a reader sees it now and as it would be found after a cut:
//
//   - a write and a truncation are of now until fsync or fdatasync of that
//     file, or at once where it was opened with O_SYNC or O_DSYNC;
//   - a name (creation, rename, unlink, mkdir) is of now until fsync of its
//     directory. Renaming within a directory happens whole or not at all, as
//     with every journal; renaming to another one are two names in two
//     directories, each with its own fsync;
//   - mode, owner and times are kept at once: nobody here relies on them.
//
// A cut takes all of it or, as real disks reorder, an arbitrary part of it: of
// the changes since the last sync each one, or each sector of each one, is
// there or is not, whatever became of those before and after it. From the cut
// on every operation fails with EIO, until Reopen makes what was left the
// present. A file that was opened before the cut gives EIO for ever.
//
// The kernel holds nothing back and remembers nothing: every file is opened
// with direct I/O, so there is neither a writeback cache nor a page cache, and
// names and attributes have no time to live. TestNothingOfTheKernelsSurvivesACut
// shows it. The price is that a shared writable mmap of a file is refused with
// ENODEV; PostgreSQL maps no data file and nats-server none at all.
//
// # Which mode for whom
//
// POSIX lets a synced file vanish with its name, if nobody synced the
// directory. PostgreSQL relies on more for its relation files: it creates one,
// syncs the file at the next checkpoint, never its directory, and forgets the
// log that would create it again. ext4, XFS and Btrfs give that more: syncing a
// new file makes its name durable too. So PostgreSQL needs Options.SyncNames
// (TestWhatPostgreSQLNeedsOfTheDirectory, in the campaign, shows the loss
// without). nats-server syncs no directory either, but promises nothing that a
// lost name could break more than its lazy flush does; it is cut in both modes.
package powercut
