package powercut

import (
	"errors"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

// Options say how a Disk behaves. The zero value is a strict POSIX disk
// without faults.
type Options struct {
	// SyncNames: fsync of a file also makes its name durable, and everything
	// that was done in its directory before the name; as ext4, XFS and Btrfs do.
	SyncNames bool
	// SpaceLimit is how many bytes all files may hold together; beyond it
	// growing fails with ENOSPC. 0 is no limit.
	SpaceLimit int64
	// SyncFails is the share of fsyncs that fail with EIO. As on Linux, what
	// such an fsync should have kept is not tried again by the next one.
	SyncFails float64
	// SyncDelay is how long a sync takes that has something to do, before it
	// takes effect, so that a cut can come in its midst.
	SyncDelay time.Duration
	// Seed chooses the syncs that fail.
	Seed uint64
}

// Disk is a file system in memory. It is safe for concurrent use.
type Disk struct {
	mu     sync.Mutex
	opt    Options
	rng    *rand.Rand
	nodes  map[uint64]*node
	lastID uint64
	files  map[uint64]*handle
	lastFH uint64
	off    bool
	epoch  uint64 // one more for each Reopen
	used   int64  // bytes of all files now
	stats  Stats
}

// Stats count what a Disk was asked, and what its cuts took.
type Stats struct {
	Writes    int64 `json:"writes"`
	Bytes     int64 `json:"bytes_written"`
	Syncs     int64 `json:"syncs"`
	SyncFails int64 `json:"failed_syncs"`
	Full      int64 `json:"refused_for_space"`
	Refused   int64 `json:"refused_without_power"`
}

// rootID is FUSE's number of the root directory.
const rootID = 1

// New makes an empty disk, with a root directory that everybody may enter.
func New(o Options) *Disk {
	d := &Disk{opt: o, rng: rand.New(rand.NewPCG(o.Seed, 0x9e3779b97f4a7c15)), nodes: map[uint64]*node{}, files: map[uint64]*handle{}, epoch: 1}
	d.newNode(syscall.S_IFDIR|0o755, 0, 0)
	return d
}

// Stats returns the counts so far.
func (d *Disk) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

// Used is how many bytes all files hold now.
func (d *Disk) Used() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used
}

// Set changes the options of a disk that is in use.
func (d *Disk) Set(change func(*Options)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.opt)
}

// SyncAll makes all of now durable, as sync(2) does.
func (d *Disk) SyncAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.nodes {
		if n.isDir() {
			n.dir.commit(len(n.dir.pending))
			continue
		}
		n.content.sync()
	}
}

// handle is an open file or directory.
type handle struct {
	n     *node
	epoch uint64
	sync  bool        // O_SYNC or O_DSYNC
	list  []listEntry // of a directory, as it was when it was opened
}

// errNoPower is what every operation gets between cut and reopening.
var errNoPower = syscall.EIO

// node finds an inode. The caller holds the lock.
func (d *Disk) node(id uint64) (*node, error) {
	if d.off {
		d.stats.Refused++
		return nil, errNoPower
	}
	n := d.nodes[id]
	if n == nil {
		return nil, syscall.ESTALE
	}
	return n, nil
}

// open finds an open file: one from before a cut is gone.
func (d *Disk) open(fh uint64) (*handle, error) {
	if d.off {
		d.stats.Refused++
		return nil, errNoPower
	}
	h := d.files[fh]
	if h == nil || h.epoch != d.epoch {
		return nil, errNoPower
	}
	return h, nil
}

// newHandle opens a node. The caller holds the lock.
func (d *Disk) newHandle(n *node, flags uint32) uint64 {
	d.lastFH++
	h := &handle{n: n, epoch: d.epoch}
	h.sync = flags&(syscall.O_DSYNC|syscall.O_SYNC) != 0
	d.files[d.lastFH] = h
	n.opened++
	return d.lastFH
}

func (d *Disk) closeHandle(fh uint64) {
	h := d.files[fh]
	if h == nil {
		return
	}
	delete(d.files, fh)
	if h.n.opened--; h.epoch == d.epoch {
		d.drop(h.n)
	}
}

// write changes a file, and syncs it where it was opened so.
func (d *Disk) write(h *handle, off int64, data []byte) error {
	grown := off + int64(len(data)) - int64(len(h.n.content.now))
	if err := d.room(grown); err != nil {
		return err
	}
	d.stats.Writes++
	d.stats.Bytes += int64(len(data))
	d.used += max(0, grown)
	h.n.content.change(change{off: off, data: append([]byte(nil), data...)})
	h.n.mtime = time.Now()
	return nil
}

func (d *Disk) truncate(n *node, size int64) error {
	grown := size - int64(len(n.content.now))
	if err := d.room(grown); err != nil {
		return err
	}
	d.used += grown
	n.content.change(change{off: size, cut: true})
	n.mtime = time.Now()
	return nil
}

func (d *Disk) room(grown int64) error {
	if d.opt.SpaceLimit > 0 && grown > 0 && d.used+grown > d.opt.SpaceLimit {
		d.stats.Full++
		return syscall.ENOSPC
	}
	return nil
}

// sync makes a file or directory durable. The caller does not hold the lock.
func (d *Disk) sync(find func() (*node, error)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := find()
	if err == nil && d.opt.SyncDelay > 0 && len(n.content.pending)+len(n.dir.pending) > 0 {
		d.mu.Unlock()
		time.Sleep(d.opt.SyncDelay)
		d.mu.Lock()
		n, err = find()
	}
	if err != nil {
		return err
	}
	d.stats.Syncs++
	if d.opt.SyncFails > 0 && d.rng.Float64() < d.opt.SyncFails {
		d.stats.SyncFails++
		n.content.pending = nil
		return syscall.EIO
	}
	if n.isDir() {
		n.dir.commit(len(n.dir.pending))
	} else {
		n.content.sync()
	}
	if d.opt.SyncNames {
		d.commitNames(n)
	}
	return nil
}

// errno turns an error into a FUSE status' number.
func errno(err error) syscall.Errno {
	var e syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e
	}
	return syscall.EIO
}
