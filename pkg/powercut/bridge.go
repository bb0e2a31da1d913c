package powercut

import (
	"cmp"
	"slices"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// bridge answers the kernel from a Disk.
type bridge struct {
	fuse.RawFileSystem // ENOSYS for what is not here
	d                  *Disk
}

func newBridge(d *Disk) *bridge { return &bridge{fuse.NewDefaultRawFileSystem(), d} }

func (b *bridge) String() string { return "powercut" }

func status(err error) fuse.Status { return fuse.Status(errno(err)) }

// do runs one operation on a disk that nobody else changes meanwhile.
func (b *bridge) do(op func() error) fuse.Status {
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	return status(op())
}

func (n *node) attr(out *fuse.Attr) {
	out.Ino, out.Mode, out.Uid, out.Gid = n.id, n.mode, n.uid, n.gid
	out.Nlink = n.links
	switch {
	case n.isDir():
		out.Nlink, out.Size = 2, 4096
	case n.isFile():
		out.Size = uint64(len(n.content.now))
	default:
		out.Size = uint64(len(n.link))
	}
	out.Blocks, out.Blksize = (out.Size+511)/512, 4096
	out.SetTimes(&n.mtime, &n.mtime, &n.mtime)
}

// entry fills in a node. Times to live stay zero: the kernel asks each time.
func (n *node) entry(out *fuse.EntryOut) {
	out.NodeId, out.Generation = n.id, 1
	n.attr(&out.Attr)
}

func (b *bridge) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	return b.do(func() error {
		_, n, err := b.d.lookup(h.NodeId, name)
		if err != nil {
			return err
		}
		if n == nil {
			return syscall.ENOENT
		}
		n.entry(out)
		return nil
	})
}

func (b *bridge) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	return b.do(func() error {
		n, err := b.d.node(in.NodeId)
		if err != nil {
			return err
		}
		n.attr(&out.Attr)
		return nil
	})
}

func (b *bridge) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	return b.do(func() error {
		n, err := b.d.node(in.NodeId)
		if err != nil {
			return err
		}
		if in.Valid&fuse.FATTR_FH != 0 {
			if _, err := b.d.open(in.Fh); err != nil {
				return err
			}
		}
		if mode, ok := in.GetMode(); ok {
			n.mode = n.mode&syscall.S_IFMT | mode&07777
		}
		if uid, ok := in.GetUID(); ok {
			n.uid = uid
		}
		if gid, ok := in.GetGID(); ok {
			n.gid = gid
		}
		if size, ok := in.GetSize(); ok {
			if err := b.d.truncate(n, int64(size)); err != nil {
				return err
			}
		}
		if t, ok := in.GetMTime(); ok {
			n.mtime = t
		}
		n.attr(&out.Attr)
		return nil
	})
}

func (b *bridge) make(h *fuse.InHeader, name string, mode uint32, link string, out *fuse.EntryOut) fuse.Status {
	return b.do(func() error {
		n, err := b.d.create(h.NodeId, name, mode, h.Uid, h.Gid)
		if err != nil {
			return err
		}
		n.link = link
		n.entry(out)
		return nil
	})
}

func (b *bridge) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	if in.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return fuse.EPERM // no devices, pipes or sockets
	}
	return b.make(&in.InHeader, name, in.Mode, "", out)
}

func (b *bridge) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return b.make(&in.InHeader, name, syscall.S_IFDIR|in.Mode&07777, "", out)
}

func (b *bridge) Symlink(_ <-chan struct{}, h *fuse.InHeader, pointedTo, name string, out *fuse.EntryOut) fuse.Status {
	return b.make(h, name, syscall.S_IFLNK|0o777, pointedTo, out)
}

func (b *bridge) Readlink(_ <-chan struct{}, h *fuse.InHeader) (text []byte, code fuse.Status) {
	code = b.do(func() error {
		n, err := b.d.node(h.NodeId)
		if err == nil {
			text = []byte(n.link)
		}
		return err
	})
	return text, code
}

func (b *bridge) Unlink(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return b.do(func() error { return b.d.unlink(h.NodeId, name, false) })
}

func (b *bridge) Rmdir(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return b.do(func() error { return b.d.unlink(h.NodeId, name, true) })
}

func (b *bridge) Rename(_ <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	return b.do(func() error { return b.d.move(in.NodeId, from, in.Newdir, to, in.Flags) })
}

func (b *bridge) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	return b.do(func() error {
		n, err := b.d.link(in.Oldnodeid, in.NodeId, name)
		if err == nil {
			n.entry(out)
		}
		return err
	})
}

// Access leaves rights to whoever asks: nothing here depends on them.
func (b *bridge) Access(<-chan struct{}, *fuse.AccessIn) fuse.Status { return fuse.OK }

func (b *bridge) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	return b.do(func() error {
		n, err := b.d.create(in.NodeId, name, syscall.S_IFREG|in.Mode&07777, in.Uid, in.Gid)
		if err != nil {
			return err
		}
		n.entry(&out.EntryOut)
		out.Fh, out.OpenFlags = b.d.newHandle(n, in.Flags), fuse.FOPEN_DIRECT_IO
		return nil
	})
}

func (b *bridge) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return b.do(func() error {
		n, err := b.d.node(in.NodeId)
		if err != nil {
			return err
		}
		if in.Flags&syscall.O_TRUNC != 0 {
			if err := b.d.truncate(n, 0); err != nil {
				return err
			}
		}
		out.Fh, out.OpenFlags = b.d.newHandle(n, in.Flags), fuse.FOPEN_DIRECT_IO
		return nil
	})
}

func (b *bridge) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (result fuse.ReadResult, code fuse.Status) {
	read := 0
	code = b.do(func() error {
		h, err := b.d.open(in.Fh)
		if err == nil && in.Offset < uint64(len(h.n.content.now)) {
			read = copy(buf, h.n.content.now[in.Offset:])
		}
		return err
	})
	if code != fuse.OK {
		return nil, code // a result beside an error would be taken for the answer
	}
	return fuse.ReadResultData(buf[:read]), code
}

func (b *bridge) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (written uint32, code fuse.Status) {
	durable := false
	code = b.do(func() error {
		h, err := b.d.open(in.Fh)
		if err != nil {
			return err
		}
		off := int64(in.Offset)
		if in.Flags&syscall.O_APPEND != 0 {
			off = int64(len(h.n.content.now))
		}
		durable = h.sync
		return b.d.write(h, off, data)
	})
	if code == fuse.OK && durable {
		code = b.sync(in.Fh)
	}
	return uint32(len(data)), code
}

// sync finds the file only when the sync takes effect: a cut may come before.
func (b *bridge) sync(fh uint64) fuse.Status {
	return status(b.d.sync(func() (*node, error) {
		h, err := b.d.open(fh)
		if err != nil {
			return nil, err
		}
		return h.n, nil
	}))
}

func (b *bridge) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status { return b.sync(in.Fh) }

func (b *bridge) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status { return b.sync(in.Fh) }

// Flush is close(2), which promises nothing.
func (b *bridge) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.OK }

// Fallocate grows a file with zeros, as volatile as any other change.
func (b *bridge) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	const keepSize = 1
	if in.Mode&^keepSize != 0 {
		return fuse.Status(syscall.EOPNOTSUPP)
	}
	return b.do(func() error {
		h, err := b.d.open(in.Fh)
		if err != nil || in.Mode&keepSize != 0 {
			return err
		}
		if end := int64(in.Offset + in.Length); end > int64(len(h.n.content.now)) {
			return b.d.truncate(h.n, end)
		}
		return nil
	})
}

func (b *bridge) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	b.do(func() error { b.d.closeHandle(in.Fh); return nil })
}

func (b *bridge) ReleaseDir(in *fuse.ReleaseIn) {
	b.do(func() error { b.d.closeHandle(in.Fh); return nil })
}

// listEntry is one line of a directory.
type listEntry struct {
	name string
	id   uint64
	mode uint32
}

func (b *bridge) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return b.do(func() error {
		n, err := b.d.node(in.NodeId)
		if err != nil {
			return err
		}
		out.Fh = b.d.newHandle(n, 0)
		h := b.d.files[out.Fh]
		for name, child := range n.dir.now {
			h.list = append(h.list, listEntry{name, child.id, child.mode})
		}
		slices.SortFunc(h.list, func(x, y listEntry) int { return cmp.Compare(x.name, y.name) })
		return nil
	})
}

func (b *bridge) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return b.do(func() error {
		h, err := b.d.open(in.Fh)
		if err != nil {
			return err
		}
		for i := in.Offset; i < uint64(len(h.list)); i++ {
			e := h.list[i]
			if !out.AddDirEntry(fuse.DirEntry{Name: e.name, Ino: e.id, Mode: e.mode, Off: i + 1}) {
				break
			}
		}
		return nil
	})
}

func (b *bridge) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	return b.do(func() error {
		const block = 4096
		total := int64(1) << 40
		if b.d.opt.SpaceLimit > 0 {
			total = b.d.opt.SpaceLimit
		}
		out.Bsize, out.Frsize, out.NameLen = block, block, 255
		out.Blocks = uint64(total / block)
		out.Bfree = uint64(max(0, total-b.d.used) / block)
		out.Bavail = out.Bfree
		out.Files, out.Ffree = 1<<20, 1<<20
		return nil
	})
}
