package powercut

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// ErrNoMount says that this machine or this user cannot mount, with the reason.
var ErrNoMount = errors.New("no file system can be mounted here")

// Mount is a Disk at a place of this machine's tree.
type Mount struct {
	Dir    string
	server *fuse.Server
}

// Mount puts the disk on an empty directory, which every user of the machine
// may enter when this process is root. ErrNoMount says that this machine does
// not allow it. Mounts may come and go over the life of a disk.
func (d *Disk) Mount(dir string) (*Mount, error) {
	if err := mayMount(); err != nil {
		return nil, err
	}
	root := os.Geteuid() == 0
	server, err := fuse.NewServer(newBridge(d), dir, &fuse.MountOptions{
		FsName: "powercut", Name: "powercut",
		// PostgreSQL runs as another user. Without root only fusermount can
		// mount, and the server runs as ourselves.
		AllowOther: root, DirectMount: root, DirectMountStrict: root,
		MaxWrite: 1 << 20, DisableXAttrs: true, DisableReadDirPlus: true,
		// Reads of one handle may overtake each other; there is no cache that
		// would mind.
		SyncRead: false,
		// The bytes are copied into the disk anyway.
		DisableSplice: true,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoMount, err)
	}
	go server.Serve()
	if err := server.WaitMount(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoMount, err)
	}
	return &Mount{Dir: dir, server: server}, nil
}

// mayMount says early, and in plain words, what is missing.
func mayMount() error {
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: /dev/fuse does not exist; load the kernel's module fuse, and give a container the device (--device /dev/fuse --cap-add SYS_ADMIN)", ErrNoMount)
	case err != nil:
		return fmt.Errorf("%w: /dev/fuse cannot be opened: %w; run as root", ErrNoMount, errors.Unwrap(err))
	}
	return f.Close()
}

// Unmount takes the disk off. What still uses it gets a moment to end.
func (m *Mount) Unmount() error {
	var err error
	for range 50 {
		if err = m.server.Unmount(); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("unmount %s: %w", m.Dir, err)
}
